import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Any number of consumers, a thread each. Commands come as JSON lines on standard input, what befalls the consumers goes
 * as JSON lines to standard output; integration/harness/members.py is the other end and says what they mean.
 */
public final class GroupMembers {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    public static void main(String[] args) throws Exception {
        say(JSON.createObjectNode().put("event", "ready"));
        Map<String, Member> members = new ConcurrentHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = JSON.readTree(line);
            String name = command.get("member").asText();
            Member member = members.computeIfAbsent(name, Member::new);
            member.commands.add(command);
            if (command.get("do").asText().equals("open")) {
                member.start();
            }
        }
        // Whoever held the other end has gone: nobody needs these consumers any more, and nobody is told of their end.
        Runtime.getRuntime().halt(0);
    }

    private static void say(ObjectNode event) {
        synchronized (System.out) {
            System.out.println(event);
            System.out.flush();
        }
    }

    private static ArrayNode words(Collection<TopicPartition> partitions) {
        ArrayNode list = JSON.createArrayNode();
        for (TopicPartition partition : partitions) {
            list.addArray().add(partition.topic()).add(partition.partition());
        }
        return list;
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        final BlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
        private final String name;
        private KafkaConsumer<String, String> consumer;
        private Set<TopicPartition> owned = new HashSet<>();
        private String memberId = "";
        private int generation = -1;

        Member(String name) {
            super(name);
            this.name = name;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (true) {
                try {
                    for (JsonNode command = commands.poll(); command != null; command = commands.poll()) {
                        if (!obey(command)) {
                            return;
                        }
                    }
                    ConsumerRecords<String, String> records = consumer.poll(POLL);
                    tellChanges();
                    if (!records.isEmpty()) {
                        ArrayNode list = JSON.createArrayNode();
                        for (ConsumerRecord<String, String> record : records) {
                            list.addArray().add(record.topic()).add(record.partition()).add(record.offset())
                                .add(record.value());
                        }
                        event("records").with("records", list);
                    }
                } catch (WakeupException woken) {
                    // nobody wakes it, but the library may
                } catch (Exception error) {
                    event("error").with("text", JSON.getNodeFactory().textNode(error.toString()));
                    if (consumer == null) {
                        return;
                    }
                }
            }
        }

        private boolean obey(JsonNode command) {
            ObjectNode answer = JSON.createObjectNode().put("event", "answer");
            answer.put("member", name).put("id", command.get("id").asInt());
            String kind = command.get("do").asText();
            try {
                switch (kind) {
                    case "open" -> open(command);
                    case "subscribe" -> subscribe(command);
                    case "commit" -> commit(command.get("offsets"));
                    case "committed" -> answer.set("value", committed(command.get("partitions")));
                    case "seek" -> seek(partition(command), command.get("offset").asLong());
                    case "close" -> close();
                    default -> throw new IllegalArgumentException(kind);
                }
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            say(answer);
            return !kind.equals("close");
        }

        private void open(JsonNode command) {
            Properties config = new Properties();
            config.put("bootstrap.servers", command.get("bootstrap").asText());
            config.put("group.id", command.get("group").asText());
            config.put("partition.assignment.strategy", ASSIGNORS.get(command.get("assignor").asText()));
            config.put("key.deserializer", StringDeserializer.class.getName());
            config.put("value.deserializer", StringDeserializer.class.getName());
            config.put("fetch.max.wait.ms", "100");
            command.get("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().asText()));
            consumer = new KafkaConsumer<>(config);
            subscribe(command);
        }

        private void subscribe(JsonNode command) {
            List<String> topics = new ArrayList<>();
            command.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics, this);
        }

        private void commit(JsonNode offsets) {
            if (offsets == null || offsets.isNull()) {
                consumer.commitSync();
                return;
            }
            Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
            for (JsonNode one : offsets) {
                TopicPartition partition = new TopicPartition(one.get(0).asText(), one.get(1).asInt());
                wanted.put(partition, new OffsetAndMetadata(one.get(2).asLong(), one.get(3).asText()));
            }
            consumer.commitSync(wanted);
        }

        private ArrayNode committed(JsonNode partitions) {
            Set<TopicPartition> wanted = new HashSet<>();
            partitions.forEach(one -> wanted.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
            ArrayNode found = JSON.createArrayNode();
            consumer.committed(wanted).forEach((partition, offset) -> {
                if (offset != null) {
                    found.addArray().add(partition.topic()).add(partition.partition()).add(offset.offset())
                        .add(offset.metadata());
                }
            });
            return found;
        }

        private TopicPartition partition(JsonNode command) {
            return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
        }

        private void seek(TopicPartition partition, long offset) {
            if (offset == -2) {
                consumer.seekToBeginning(List.of(partition));
            } else if (offset == -1) {
                consumer.seekToEnd(List.of(partition));
                consumer.position(partition); // what is written after the answer is read
            } else {
                consumer.seek(partition, offset);
            }
        }

        private void close() {
            consumer.close(Duration.ofSeconds(20));
            say(JSON.createObjectNode().put("member", name).put("event", "closed"));
        }

        private void tellChanges() {
            ConsumerGroupMetadata group = consumer.groupMetadata();
            if (group.generationId() != generation || !group.memberId().equals(memberId)) {
                generation = group.generationId();
                memberId = group.memberId();
                ObjectNode event = JSON.createObjectNode().put("member", name).put("event", "group");
                say(event.put("id", memberId).put("generation", generation));
            }
            Set<TopicPartition> now = new HashSet<>(consumer.assignment());
            if (!now.equals(owned)) {
                owned = now;
                event("assignment").with("partitions", words(now));
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            event("assigned").with("partitions", words(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            event("revoked").with("partitions", words(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            event("lost").with("partitions", words(partitions));
        }

        private Report event(String kind) {
            return new Report(JSON.createObjectNode().put("member", name).put("event", kind));
        }
    }

    private record Report(ObjectNode event) {
        void with(String field, JsonNode value) {
            event.set(field, value);
            say(event);
        }
    }
}
