//! What to tell who asks for more than JetStream has room for.

use super::{Catalog, LOOK_TIMEOUT};
use crate::store::{Storage, StoreError, StoreResult};

/// Too many streams, no room in memory, or no limits set for the account.
const LIMITS: [u32; 3] = [10027, 10028, 10120];

/// What was asked of the store.
pub(super) struct Asked {
    pub partitions: usize,
    /// `max_bytes` of each; not positive: no limit.
    pub bytes: i64,
    pub replicas: u32,
}

impl Catalog {
    /// The text for a refusal by lack of room: what was asked, what there is, and how to ask for less. `None`: it was
    /// something else.
    pub(super) fn no_room(&self, error: &StoreError, asked: &Asked) -> Option<String> {
        let words = match error {
            StoreError::NoSpace(words) => words,
            StoreError::Refused { code, text } if LIMITS.contains(code) => text,
            _ => return None,
        };
        let storage = self.store.storage(self.clock.now().mono + LOOK_TIMEOUT);
        Some(text(words, asked, &storage))
    }
}

fn text(words: &str, asked: &Asked, storage: &StoreResult<Storage>) -> String {
    let Asked { partitions, bytes, replicas } = asked;
    let mut text = "The store has no room for this topic.".to_owned();
    match u64::try_from(*bytes) {
        Ok(each @ 1..) => {
            let all = each.saturating_mul(*partitions as u64);
            text += &format!(
                " JetStream sets retention.bytes aside for each partition: {partitions} of {each} bytes, on {replicas} \
                 server(s) each, are {all} bytes."
            );
        }
        _ => text += " Without retention.bytes nothing was to be set aside.",
    }
    if let Ok(Storage { used, reserved, limit }) = storage {
        let free = match limit {
            Some(limit) => format!("of {limit} bytes {} are free", limit.saturating_sub(*reserved.max(used))),
            None => "what is left of the server's max_file_store is free".to_owned(),
        };
        text += &format!(" Set aside already are {reserved} bytes, in use {used}; {free}.");
    }
    text += &format!(
        " It says: {words}. Ask for less with retention.bytes, or with the gateway's --retention-bytes for topics that do not \
         say (-1 sets nothing aside), or give the server more."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_was_asked_what_is_free_and_what_to_do() {
        let storage = Ok(Storage { used: 10, reserved: 600, limit: Some(1000) });
        let asked = Asked { partitions: 2, bytes: 250, replicas: 3 };
        let said = text("insufficient storage resources available", &asked, &storage);
        for part in [
            "insufficient storage",
            "2 of 250 bytes, on 3 server(s) each, are 500 bytes",
            "of 1000 bytes 400 are free",
            "--retention-bytes",
        ] {
            assert!(said.contains(part), "{part} is missing in: {said}");
        }
        let asked = Asked { partitions: 2, bytes: -1, replicas: 1 };
        let said = text("insufficient resources", &asked, &Err(StoreError::NoAnswer));
        assert!(said.contains("insufficient resources") && !said.contains("2 of"), "{said}");
    }
}
