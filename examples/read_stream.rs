//! Reads a partition without Kafka: `cargo run --example read_stream -- --topic t [--partition 0] [--nats localhost:4222]`.
//!
//! A partition is a JetStream stream, a stored message is a chain of Kafka's record batches. This asks JetStream for one
//! message after the other and prints what is in it, which is also how to look at data when no gateway runs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hanzo_kafka::catalog::names;
use hanzo_kafka::records::{batch, record};
use serde_json::{Value, json};
use std::error::Error;
use std::time::Duration;
use structopt::StructOpt;

/// JetStream's code for "no message found".
const NO_MESSAGE: u64 = 10037;

/// A batch that inflates to more is not shown.
const INFLATED_BYTES_MAX: usize = 256 << 20;

#[derive(StructOpt)]
struct Args {
    #[structopt(long)]
    topic: String,
    #[structopt(long, default_value = "0")]
    partition: usize,
    #[structopt(long, default_value = "localhost:4222")]
    nats: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::from_args();
    let (stream, subject) = (names::stream(&args.topic, args.partition), names::subject(&args.topic, args.partition));
    #[allow(deprecated, reason = "the blocking crate, in which a stack trace tells the whole story")]
    let nats = nats::connect(&args.nats)?;
    let mut sequence = 1;
    loop {
        let question = json!({ "seq": sequence, "next_by_subj": subject }).to_string();
        let api = format!("$JS.API.STREAM.MSG.GET.{stream}");
        let answer = nats.request_timeout(&api, &question, Duration::from_secs(5))?;
        let answer: Value = serde_json::from_slice(&answer.data)?;
        if answer["error"]["err_code"] == NO_MESSAGE {
            return Ok(());
        }
        if let Some(refusal) = answer["error"]["description"].as_str() {
            return Err(format!("{stream}: {refusal}").into());
        }
        let message = &answer["message"];
        sequence = message["seq"].as_u64().ok_or("a message without a sequence")?;
        let chain = STANDARD.decode(message["data"].as_str().unwrap_or_default())?;
        println!("sequence {sequence}, stored {}, {} bytes", message["time"].as_str().unwrap_or("?"), chain.len());
        match batch::chain_is_valid(&chain) {
            Some(_) => show(&chain)?,
            None => println!("  no Kafka batches: the gateway steps over it"),
        }
        sequence += 1;
    }
}

fn show(chain: &[u8]) -> Result<(), Box<dyn Error>> {
    for step in batch::walk(chain) {
        let (header, batch) = step?;
        let codec = header.compression()?.name();
        println!("  batch at offset {}, {} records, {codec}", header.base_offset, header.record_count);
        for record in record::records(&record::inflated(batch, INFLATED_BYTES_MAX)?) {
            let record = record?;
            let offset = header.base_offset + i64::from(record.offset_delta);
            let time = header.base_timestamp + record.timestamp_delta;
            println!("    offset {offset}, time {time}: {} = {}", text(record.key), text(record.value));
            for (name, value) in record.headers {
                println!("      {}: {}", String::from_utf8_lossy(name), text(value));
            }
        }
    }
    Ok(())
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or("(null)".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}
