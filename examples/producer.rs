//! Sends each line of standard input as a record: `cargo run --example producer -- --topic t [--bootstrap localhost:9092]`.
//!
//! An ordinary librdkafka producer; nothing in it knows that there is no Kafka behind the address.

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, util::Timeout};
use std::error::Error;
use std::io::BufRead;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use structopt::StructOpt;

#[derive(StructOpt)]
struct Args {
    /// Topic to send to; it is made if it is not there.
    #[structopt(long)]
    topic: String,
    #[structopt(long, default_value = "localhost:9092")]
    bootstrap: String,
}

/// Hears what became of each record.
#[derive(Default)]
struct Deliveries {
    failed: AtomicUsize,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(stored) => println!("partition {} offset {}", stored.partition(), stored.offset()),
            Err((error, _)) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                eprintln!("not delivered: {error}");
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::from_args();
    let producer: BaseProducer<Deliveries> = ClientConfig::new()
        .set("bootstrap.servers", &args.bootstrap)
        .set("enable.idempotence", "true")
        .create_with_context(Deliveries::default())?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut record = BaseRecord::<(), str>::to(&args.topic).payload(&line);
        // A full queue empties as records are delivered.
        while let Err((error, returned)) = producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            record = returned;
            producer.poll(Timeout::After(Duration::from_millis(100)));
        }
        producer.poll(Timeout::After(Duration::ZERO));
    }
    producer.flush(Timeout::After(Duration::from_secs(30)))?;
    match producer.context().failed.load(Ordering::Relaxed) {
        0 => Ok(()),
        failed => Err(format!("{failed} records were not delivered").into()),
    }
}
