"""What a broker tells of itself: metrics under the names of Kafka's beans, and the page that serves them."""
