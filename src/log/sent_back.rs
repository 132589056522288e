//! What new producers were told to send again.
//!
//! Of a producer that the log does not know any first sequence is taken, as in Kafka, and of one of which messages are gone
//! unread any that lies ahead. But where the first batches of a
//! pipeline were just refused with an error that clients retry, the one behind them must not be taken for a beginning:
//! they would come again and be a gap.

use crate::limits::SENT_BACK_PRODUCERS_MAX;
use crate::log::append::Append;
use crate::log::producers::is_ahead;
use crate::records::batch::BatchHeader;
use std::collections::HashMap;

/// Per producer: its epoch and the first sequence that it has to send again.
#[derive(Default)]
pub(super) struct SentBack {
    awaited: HashMap<i64, (i16, i32)>,
}

impl SentBack {
    /// Takes note of batches that are refused and will be sent again.
    pub fn note<'a>(&mut self, refused: impl IntoIterator<Item = &'a Append>) {
        for header in refused.into_iter().map(|append| &append.header).filter(|header| header.has_producer()) {
            self.note_one(header);
        }
    }

    pub fn note_one(&mut self, header: &BatchHeader) {
        self.add(header.producer_id, (header.producer_epoch, header.base_sequence));
    }

    /// Takes note of all that the other one knows of.
    pub fn merge(&mut self, other: SentBack) {
        other.awaited.into_iter().for_each(|(producer, news)| self.add(producer, news));
    }

    fn add(&mut self, producer: i64, news: (i16, i32)) {
        if self.awaited.len() >= SENT_BACK_PRODUCERS_MAX {
            // Rather forget than grow: what is lost is only the guess about a producer that nothing is known of.
            self.awaited.clear();
        }
        let awaited = self.awaited.entry(producer).or_insert(news);
        if news.0 > awaited.0 || (news.0 == awaited.0 && is_ahead(awaited.1, news.1)) {
            *awaited = news;
        }
    }

    /// The sequence with which an earlier batch of this one's producer begins that has to come first.
    pub fn awaited_before(&self, header: &BatchHeader) -> Option<i32> {
        let (epoch, first) = self.awaited.get(&header.producer_id)?;
        let earlier = *epoch == header.producer_epoch && is_ahead(header.base_sequence, *first);
        earlier.then_some(*first)
    }

    /// The batch stands in the log, through whomever it came.
    pub fn stands(&mut self, header: &BatchHeader) {
        let awaited = self.awaited.get(&header.producer_id);
        let over = |(epoch, first): &(i16, i32)| {
            header.producer_epoch > *epoch
                || header.producer_epoch == *epoch && !is_ahead(*first, header.last_sequence())
        };
        if awaited.is_some_and(over) {
            self.awaited.remove(&header.producer_id);
        }
    }

    /// The batch goes into the log: from here on the log itself knows its producer.
    pub fn came(&mut self, header: &BatchHeader) {
        if !self.awaited.is_empty() {
            self.awaited.remove(&header.producer_id);
        }
    }
}
