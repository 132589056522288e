//! The head of an HTTP request, read strictly: whatever two readers could take differently is refused.

use crate::limits::ADMIN_HEAD_BYTES_MAX;

/// What has arrived of a request.
#[derive(Debug, PartialEq)]
pub enum Head {
    /// More must come.
    Partial,
    Whole(Asked),
    /// Answered with this status, and why.
    Bad(u16, &'static str),
}

#[derive(Debug, PartialEq)]
pub struct Asked {
    pub method: String,
    /// Begins with a slash, unless the method is one that is refused.
    pub target: String,
    pub headers: Vec<(String, String)>,
}

/// Reads the head at the beginning of `bytes`. What follows it is not looked at: a connection serves one request.
pub fn read(bytes: &[u8]) -> Head {
    let within = &bytes[..bytes.len().min(ADMIN_HEAD_BYTES_MAX)];
    let Some(end) = within.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() >= ADMIN_HEAD_BYTES_MAX {
            Head::Bad(431, "the head is too large")
        } else {
            Head::Partial
        };
    };
    // A lone line feed ends a line for some readers, and a lone carriage return for others.
    let Ok(text) = std::str::from_utf8(&within[..end]) else { return Head::Bad(400, "the head is not text") };
    let mut lines = text.split("\r\n");
    let Some(first) = lines.next().filter(|line| is_visible(line)) else { return Head::Bad(400, "no request line") };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Head::Bad(400, "no request line");
    };
    if !is_token(method) || target.is_empty() {
        return Head::Bad(400, "no request line");
    }
    match version {
        "HTTP/1.1" | "HTTP/1.0" => {}
        _ if version.starts_with("HTTP/") => return Head::Bad(505, "only HTTP/1"),
        _ => return Head::Bad(400, "no request line"),
    }
    let mut headers = Vec::new();
    for line in lines {
        match line.split_once(':') {
            Some((name, value)) if is_token(name) && is_visible(value) => {
                headers.push((name.to_owned(), value.trim().to_owned()));
            }
            _ => return Head::Bad(400, "a header that is none"),
        }
    }
    let reads = matches!(method, "GET" | "HEAD");
    if reads && !target.starts_with('/') {
        return Head::Bad(400, "the target is no path");
    }
    if reads && headers.iter().any(|(name, value)| announces_body(name, value)) {
        return Head::Bad(400, "no body is read");
    }
    Head::Whole(Asked { method: method.to_owned(), target: target.to_owned(), headers })
}

fn announces_body(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("transfer-encoding") || name.eq_ignore_ascii_case("content-length") && value != "0"
}

fn is_token(text: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(token)
}

/// Printable, blanks and tabs included.
fn is_visible(text: &str) -> bool {
    text.chars().all(|character| character == '\t' || !character.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, expected: Result<(&str, &str), u16>) {
        let got = match read(head.as_bytes()) {
            Head::Whole(asked) => Ok((asked.method, asked.target)),
            Head::Bad(status, _) => Err(status),
            Head::Partial => Err(0),
        };
        let got = got.as_ref().map(|(method, target)| (method.as_str(), target.as_str()));
        assert_eq!(got.map_err(|status| *status), expected, "{head:?}");
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        check("GET / HTTP/1.1\r\n\r\n", Ok(("GET", "/")));
        check("GET /a?b=c HTTP/1.0\r\nHost: x\r\nAccept: */*\r\n\r\nleft over", Ok(("GET", "/a?b=c")));
        check("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Ok(("GET", "/")));
        check("POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", Ok(("POST", "/x")));
        check("OPTIONS * HTTP/1.1\r\n\r\n", Ok(("OPTIONS", "*")));
        check("GET / HTTP/1.1\r\nHost: x\r\n", Err(0));
        check("", Err(0));
        for bad in [
            "GET / HTTP/1.1\nHost: x\n\n\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\nEvil: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
            "GET / HTTP/1.1\r\n folded: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\n\tmore\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\rb\r\n\r\n",
            "GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1 \r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "GET /\r\n\r\n",
            "GET http://x/ HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: 0\r\nContent-Length: 4\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: +0\r\n\r\n",
        ] {
            check(bad, Err(400));
        }
        check("GET / HTTP/2.0\r\n\r\n", Err(505));
        check(&format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(9000)), Err(431));
        check(&"a".repeat(8192), Err(431));
        assert!(matches!(read(b"GET /\xff HTTP/1.1\r\n\r\n"), Head::Bad(400, _)));
    }

    #[test]
    fn nothing_makes_it_panic() {
        let head = b"GET /a?b HTTP/1.1\r\nHost: x\r\nA:b\r\n\r\n";
        for at in 0..head.len() {
            for byte in [0, b'\r', b'\n', b' ', b':', 0x80, 0xff] {
                let mut changed = head.to_vec();
                changed[at] = byte;
                read(&changed);
                read(&changed[..at]);
            }
        }
    }
}
