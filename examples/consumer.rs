//! Prints the records of a topic as they come, as a member of a consumer group that goes on where it stopped:
//! `cargo run --example consumer -- --topic t [--group readers] [--bootstrap localhost:9092]`.

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use std::error::Error;
use std::time::Duration;
use structopt::StructOpt;

#[derive(StructOpt)]
struct Args {
    #[structopt(long)]
    topic: String,
    /// Consumers of one group share the partitions.
    #[structopt(long, default_value = "readers")]
    group: String,
    #[structopt(long, default_value = "localhost:9092")]
    bootstrap: String,
    /// Stops after so many records.
    #[structopt(long)]
    count: Option<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::from_args();
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &args.bootstrap)
        .set("group.id", &args.group)
        .set("auto.offset.reset", "earliest")
        .create()?;
    consumer.subscribe(&[&args.topic])?;
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        let Some(record) = consumer.poll(Duration::from_secs(1)) else { continue };
        let record = record?;
        let value = record.payload().map_or("(null)".into(), String::from_utf8_lossy);
        println!("partition {} offset {}: {value}", record.partition(), record.offset());
        printed += 1;
    }
    Ok(())
}
