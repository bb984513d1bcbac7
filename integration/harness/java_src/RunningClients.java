import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Pairs of an idempotent producer and a consumer, each pair with one partition and one configuration, until they are told
 * to stop. Commands are lines on standard input: {@code open NAME TOPIC PARTITION PROPERTIES}; {@code stop NAME},
 * which ends the producer; {@code close NAME}. Lines on standard output: {@code NAME sent|acked|read NUMBER},
 * {@code NAME failed|error TEXT}. integration/security/running_java.py is the other end.
 */
public final class RunningClients {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PAUSE_MS = 200;

    public static void main(String[] args) throws Exception {
        Map<String, Pair> pairs = new ConcurrentHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "open":
                    pairs.put(words[1], new Pair(words[1], new TopicPartition(words[2], Integer.parseInt(words[3])), words[4]));
                    break;
                case "stop":
                    pairs.get(words[1]).produces = false;
                    break;
                default:
                    pairs.get(words[1]).consumes = false;
            }
        }
        // The other end has gone, and reads no more of these lines.
        Runtime.getRuntime().halt(0);
    }

    private static void say(String name, String what, Object value) {
        synchronized (System.out) {
            System.out.println(name + " " + what + " " + String.valueOf(value).replace('\n', ' '));
            System.out.flush();
        }
    }

    private static final class Pair {
        volatile boolean produces = true;
        volatile boolean consumes = true;
        private final String name;
        private final TopicPartition partition;
        private final Properties properties = new Properties();

        Pair(String name, TopicPartition partition, String file) throws Exception {
            this.name = name;
            this.partition = partition;
            try (Reader reader = new FileReader(file, StandardCharsets.UTF_8)) {
                properties.load(reader);
            }
            start(this::produce);
            start(this::consume);
        }

        private void start(Runnable work) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (RuntimeException error) {
                    say(name, "error", error);
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        private void produce() {
            StringSerializer text = new StringSerializer();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, text, text)) {
                for (int number = 0; produces; number++) {
                    String value = Integer.toString(number);
                    ProducerRecord<String, String> record =
                        new ProducerRecord<>(partition.topic(), partition.partition(), null, value);
                    say(name, "sent", value);
                    producer.send(record, (metadata, error) ->
                        say(name, error == null ? "acked" : "failed", error == null ? value : error));
                    pause();
                }
            }
        }

        private void consume() {
            StringDeserializer text = new StringDeserializer();
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties, text, text)) {
                consumer.assign(List.of(partition));
                consumer.seek(partition, 0);
                while (consumes) {
                    try {
                        for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                            say(name, "read", record.value());
                        }
                    } catch (RuntimeException error) {
                        say(name, "error", error);
                        pause();
                    }
                }
            }
        }

        private static void pause() {
            try {
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
