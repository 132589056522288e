//! Prints a captured Kafka frame field by field: `cargo run --example decode_frame -- frame.hex`, or from standard input.
//!
//! A frame is written in hexadecimal, with or without its 4-byte length; blanks and lines that begin with `#` are left out.
//! A request tells what it is. A response does not: say what it answers, `--response-to Metadata --version 12`.

use bytes::Bytes;
use hanzo_kafka::protocol::api::{ApiKey, ApiVisitor, Request};
use hanzo_kafka::protocol::frame::{self, Opened};
use hanzo_kafka::protocol::header::RequestHeader;
use hanzo_kafka::wire::{DecodeError, Reader};
use std::error::Error;
use std::io::Read;
use std::path::PathBuf;
use structopt::StructOpt;

#[derive(StructOpt)]
struct Args {
    /// The name of the API that a response answers.
    #[structopt(long, requires = "version")]
    response_to: Option<String>,
    #[structopt(long, requires = "response-to")]
    version: Option<i16>,
    /// A file with the frame; standard input otherwise.
    file: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::from_args();
    let text = match &args.file {
        Some(file) => std::fs::read_to_string(file)?,
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let frame = without_length(bytes(&text)?);
    let answered = args.response_to.as_deref().zip(args.version);
    println!("{}", if let Some((api, version)) = answered { response(api, version, frame)? } else { request(frame)? });
    Ok(())
}

fn request(frame: Bytes) -> Result<String, Box<dyn Error>> {
    match frame::open(frame)? {
        Opened::Request { api, header, body } => {
            let fields = describe(api, What::Request(body))?;
            Ok(format!("{} request, version {}\n{header:#?}\n{fields}", api.name(), header.api_version))
        }
        Opened::UnknownApiVersions { header } | Opened::Unserved { header } => Err(unserved(&header).into()),
    }
}

fn unserved(header: &RequestHeader) -> String {
    format!("version {} of the API with key {} is not known here", header.api_version, header.api_key)
}

fn response(name: &str, version: i16, frame: Bytes) -> Result<String, Box<dyn Error>> {
    let api = ApiKey::ALL.iter().find(|api| api.name().eq_ignore_ascii_case(name));
    let api = *api.ok_or_else(|| format!("there is no API of the name {name}"))?;
    let fields = describe(api, What::Response(version, frame))?;
    Ok(format!("{} response, version {version}\n{fields}", api.name()))
}

enum What {
    Request(Reader),
    Response(i16, Bytes),
}

/// Finds the types of an API's messages in the table, and reads with them.
struct Describe {
    api: ApiKey,
    what: Option<What>,
    read: Option<Result<String, DecodeError>>,
}

impl ApiVisitor for Describe {
    fn visit<R: Request>(&mut self) {
        if R::KEY != self.api {
            return;
        }
        self.read = self.what.take().map(|what| match what {
            What::Request(body) => frame::message::<R>(body).map(|message| format!("{message:#?}")),
            What::Response(version, frame) => frame::read_response::<R>(version, frame)
                .map(|(correlation_id, message)| format!("correlation_id: {correlation_id}\n{message:#?}")),
        });
    }
}

fn describe(api: ApiKey, what: What) -> Result<String, DecodeError> {
    let mut describe = Describe { api, what: Some(what), read: None };
    ApiKey::visit_all(&mut describe);
    describe.read.expect("every API is in the table")
}

fn bytes(text: &str) -> Result<Bytes, Box<dyn Error>> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let digits: Vec<char> = lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16));
    if digits.len() % 2 == 1 {
        return Err("an odd number of hexadecimal digits".into());
    }
    Ok(pairs.collect::<Result<Vec<u8>, _>>()?.into())
}

/// The length prefix of a frame is left out if it fits: no request begins like that, its API key would be 0 to 3 and its
/// version the rest of the length.
fn without_length(frame: Bytes) -> Bytes {
    match frame.split_first_chunk::<4>() {
        Some((length, rest)) if usize::try_from(u32::from_be_bytes(*length)) == Ok(rest.len()) => frame.slice(4..),
        _ => frame,
    }
}
