//! NATS subjects and their wildcards.

/// Whether `filter`, where `*` stands for one token and a last `>` for one or more, covers `subject`. Wildcards in
/// `subject` are tokens like others: covered only by wildcards.
pub fn matches(filter: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for expected in filter.split('.') {
        match (expected, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(token)) if token != ">" => {}
            (expected, Some(token)) if expected == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

/// Whether some subject is covered by both filters.
pub fn overlap(one: &str, other: &str) -> bool {
    let (mut ones, mut others) = (one.split('.'), other.split('.'));
    loop {
        match (ones.next(), others.next()) {
            (None, None) => return true,
            (Some(">"), Some(_)) | (Some(_), Some(">")) => return true,
            (Some(a), Some(b)) if a == b || a == "*" || b == "*" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_cover_tokens() {
        for (filter, subject, expected) in [
            ("kafka.>", "kafka.a.0", true),
            ("kafka.>", "kafka", false),
            ("kafka.*.0", "kafka.a.0", true),
            ("kafka.*.0", "kafka.a.1", false),
            ("kafka.a", "kafka.a.0", false),
            ("kafka.a.0", "kafka.a", false),
            (">", "$KV.b.>", true),
            ("$KV.*.*", "$KV.b.>", false),
        ] {
            assert_eq!(matches(filter, subject), expected, "{filter} {subject}");
        }
    }

    #[test]
    fn filters_overlap_where_a_subject_could_match_both() {
        assert!(overlap("a.*", "*.b") && overlap("a.>", "a.b.c") && overlap("a", "a"));
        assert!(!overlap("a.*", "b.*") && !overlap("a", "a.b") && !overlap("a.b", "a.*.c"));
    }
}
