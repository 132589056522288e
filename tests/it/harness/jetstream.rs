//! A small NATS client on a socket of its own, so that the tests look at JetStream past the gateway's code.

use bytes::Bytes;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const ANSWER: Duration = Duration::from_secs(20);

pub struct JetStream {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    inbox: String,
    requests: u64,
}

/// What was delivered, or read from a stream.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    pub subject: String,
    /// The header block as it came, empty where there is none.
    pub headers: String,
    pub payload: Bytes,
}

impl Delivery {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub messages: u64,
    pub first: u64,
    pub last: u64,
}

impl JetStream {
    pub fn try_connect(port: u16) -> io::Result<JetStream> {
        let writer = TcpStream::connect(("127.0.0.1", port))?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(ANSWER))?;
        let mut reader = BufReader::with_capacity(1 << 20, writer.try_clone()?);
        let mut greeting = String::new();
        reader.read_line(&mut greeting)?;
        let inbox = format!("_INBOX.test{}", writer.local_addr()?.port());
        let mut jetstream = JetStream { reader, writer, inbox, requests: 0 };
        let options = json!({"verbose": false, "pedantic": false, "headers": true, "no_responders": true, "lang": "test",
            "version": "1", "protocol": 1});
        let hello = format!("CONNECT {options}\r\nSUB {}.* 1\r\n", jetstream.inbox);
        jetstream.writer.write_all(hello.as_bytes())?;
        jetstream.flush()?;
        Ok(jetstream)
    }

    /// How long an answer may take, instead of 20 s.
    pub fn wait_at_most(&self, limit: Duration) -> io::Result<()> {
        self.writer.set_read_timeout(Some(limit))
    }

    /// Waits until the server has taken everything sent before.
    pub fn flush(&mut self) -> io::Result<()> {
        self.writer.write_all(b"PING\r\n")?;
        loop {
            if self.next_line()?.starts_with("PONG") {
                return Ok(());
            }
        }
    }

    /// Whether JetStream itself answers already.
    pub fn account_ready(&mut self) -> bool {
        self.request("$JS.API.INFO", "", b"").is_ok_and(|answer| answer.payload.starts_with(b"{"))
    }

    fn next_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if line.starts_with("PING") {
            self.writer.write_all(b"PONG\r\n")?;
        }
        if line.starts_with("-ERR") {
            return Err(io::Error::other(line));
        }
        Ok(line)
    }

    /// The next message of any subscription.
    pub fn next(&mut self) -> io::Result<Delivery> {
        loop {
            let line = self.next_line()?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let size = |back: usize| words[words.len() - back].parse::<usize>().expect("a size");
            let (header_bytes, all_bytes) = match words.first() {
                Some(&"MSG") => (0, size(1)),
                Some(&"HMSG") => (size(2), size(1)),
                _ => continue,
            };
            let mut body = vec![0; all_bytes + 2];
            self.reader.read_exact(&mut body)?;
            let headers = String::from_utf8_lossy(&body[..header_bytes]).into_owned();
            let payload = Bytes::from(body).slice(header_bytes..all_bytes);
            return Ok(Delivery { subject: words[1].to_owned(), headers, payload });
        }
    }

    /// `headers` is lines such as `A: b\r\n`.
    fn send(&mut self, subject: &str, reply: &str, headers: impl AsRef<[u8]>, payload: &[u8]) -> io::Result<()> {
        let headers = headers.as_ref();
        let mut frame = Vec::with_capacity(payload.len() + headers.len() + 128);
        if headers.is_empty() {
            write!(frame, "PUB {subject} {reply} {}\r\n", payload.len())?;
        } else {
            let block = [b"NATS/1.0\r\n", headers, b"\r\n"].concat();
            write!(frame, "HPUB {subject} {reply} {} {}\r\n", block.len(), block.len() + payload.len())?;
            frame.extend(block);
        }
        frame.extend_from_slice(payload);
        frame.extend_from_slice(b"\r\n");
        self.writer.write_all(&frame)
    }

    /// Sends all, many in flight, and waits until the server has stored the last.
    #[track_caller]
    pub fn publish_all<'a>(&mut self, subject: &str, payloads: impl IntoIterator<Item = &'a [u8]>) {
        let mut frames = Vec::new();
        for payload in payloads {
            frames.extend(format!("PUB {subject} {}\r\n", payload.len()).bytes());
            frames.extend_from_slice(payload);
            frames.extend_from_slice(b"\r\n");
            if frames.len() > 1 << 18 {
                self.writer.write_all(&frames).expect("nats-server takes messages");
                frames.clear();
            }
        }
        self.writer.write_all(&frames).expect("nats-server takes messages");
        self.flush().expect("nats-server has taken them");
    }

    /// Sends a message to be stored; its ack comes through `next`.
    #[track_caller]
    pub fn begin_store(&mut self, subject: &str, headers: impl AsRef<[u8]>, payload: &[u8]) {
        let reply = self.next_reply();
        self.send(subject, &reply, headers, payload).expect("nats-server takes a message");
    }

    fn next_reply(&mut self) -> String {
        self.requests += 1;
        format!("{}.{}", self.inbox, self.requests)
    }

    pub fn request(&mut self, subject: &str, headers: impl AsRef<[u8]>, payload: &[u8]) -> io::Result<Delivery> {
        let reply = self.next_reply();
        self.send(subject, &reply, headers, payload)?;
        loop {
            let answer = self.next()?;
            if answer.subject == reply {
                return Ok(answer);
            }
        }
    }

    /// Asks the JetStream API; an error in the answer panics.
    #[track_caller]
    pub fn api(&mut self, call: &str, body: &Value) -> Value {
        self.try_api(call, body).unwrap_or_else(|error| panic!("{call}: {error}"))
    }

    pub fn try_api(&mut self, call: &str, body: &Value) -> Result<Value, Value> {
        let subject = format!("$JS.API.{call}");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.request(&subject, "", body.as_bytes()).map_err(|error| json!(error.to_string()))?;
        let answer: Value = serde_json::from_slice(&answer.payload).map_err(|_| json!(answer.headers))?;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer),
        }
    }

    /// Stores one message and gives its sequence.
    #[track_caller]
    pub fn store(&mut self, subject: &str, headers: impl AsRef<[u8]>, payload: &[u8]) -> u64 {
        self.begin_store(subject, headers, payload);
        let ack = self.next().expect("an ack");
        let ack: Value = serde_json::from_slice(&ack.payload).unwrap_or_else(|_| panic!("no stream: {}", ack.headers));
        ack["seq"].as_u64().unwrap_or_else(|| panic!("not stored: {ack}"))
    }

    #[track_caller]
    pub fn state(&mut self, stream: &str) -> State {
        let info = self.api(&format!("STREAM.INFO.{stream}"), &Value::Null);
        let number = |name: &str| info["state"][name].as_u64().expect("a state has numbers");
        State { messages: number("messages"), first: number("first_seq"), last: number("last_seq") }
    }

    #[track_caller]
    pub fn stream_names(&mut self) -> Vec<String> {
        let names = self.api("STREAM.NAMES", &Value::Null);
        let list = names["streams"].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// Removes all messages, or those below `below`; on an empty stream that moves the sequence.
    #[track_caller]
    pub fn purge(&mut self, stream: &str, below: Option<u64>) {
        let body = below.map_or(Value::Null, |seq| json!({"seq": seq}));
        self.api(&format!("STREAM.PURGE.{stream}"), &body);
    }

    #[track_caller]
    pub fn delete(&mut self, stream: &str, sequence: u64) {
        self.api(&format!("STREAM.MSG.DELETE.{stream}"), &json!({"seq": sequence, "no_erase": true}));
    }

    /// Changes the stream's configuration, unknown fields kept.
    #[track_caller]
    pub fn reconfigure(&mut self, stream: &str, change: impl FnOnce(&mut Value)) {
        let mut config = self.api(&format!("STREAM.INFO.{stream}"), &Value::Null)["config"].take();
        change(&mut config);
        self.api(&format!("STREAM.UPDATE.{stream}"), &config);
    }

    /// All messages of a stream that has allow_direct, in order.
    #[track_caller]
    pub fn messages(&mut self, stream: &str) -> Vec<Delivery> {
        let State { messages, mut first, .. } = self.state(stream);
        let mut read = Vec::new();
        for _ in 0..messages {
            let pick = json!({"seq": first, "next_by_subj": ">"}).to_string();
            let subject = format!("$JS.API.DIRECT.GET.{stream}");
            let message = self.request(&subject, "", pick.as_bytes()).expect("a direct get is answered");
            let sequence = message.header("Nats-Sequence").and_then(|text| text.parse::<u64>().ok());
            first = sequence.unwrap_or_else(|| panic!("no message at {first}: {}", message.headers)) + 1;
            read.push(message);
        }
        read
    }

    /// From now on `next` also gives what others publish to `subject`.
    pub fn subscribe(&mut self, subject: &str) {
        self.writer.write_all(format!("SUB {subject} 2\r\n").as_bytes()).expect("nats-server takes a subscription");
        self.flush().expect("nats-server answers");
    }

    /// What is delivered within `span`; the one place where a test waits a fixed time, to see that nothing happens.
    pub fn watch(&mut self, span: Duration) -> Vec<Delivery> {
        let deadline = Instant::now() + span;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.writer.set_read_timeout(Some(left)).expect("a socket takes a timeout");
            match self.next() {
                Ok(delivery) => seen.push(delivery),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => panic!("the subscription broke: {error}"),
            }
        }
        self.writer.set_read_timeout(Some(ANSWER)).expect("a socket takes a timeout");
        seen
    }
}
