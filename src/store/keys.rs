//! KV key tokens: any text as a legal token, one to one.

/// Keeps `[A-Za-z0-9_-]`, writes every other byte as `=XX`; the empty text is `=`.
pub fn token(text: &str) -> String {
    if text.is_empty() {
        return "=".to_owned();
    }
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            token.push(char::from(byte));
        } else {
            token.push_str(&format!("={byte:02X}"));
        }
    }
    token
}

/// The text that `token` was made of; `None` for what `token` never makes.
pub fn text_of(token: &str) -> Option<String> {
    if token == "=" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'=' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let hex = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        rest = after.get(2..)?;
    }
    let text = String::from_utf8(bytes).ok()?;
    (crate::store::keys::token(&text) == token).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_legal_and_one_to_one() {
        let texts = ["", "a", "a.b", "a b", "a=2Eb", "=", "*", ">", "g:1", "ü", ".", "a..b", "_-9Z"];
        for text in texts {
            let made = token(text);
            assert!(made.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b)), "{made}");
            assert_eq!(text_of(&made).as_deref(), Some(text));
        }
        for foreign in ["=2", "=zz", "=41", "=2e", "a b"] {
            assert_eq!(text_of(foreign), None, "{foreign}");
        }
    }
}
