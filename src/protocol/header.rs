//! Request and response headers (KIP-482: request v1 and v2, response v0 and v1).

use super::api::ApiKey;
use crate::wire::{DecodeError, Reader, Writer};

/// Who asks what, and under which number the answer is expected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestHeader {
    pub api_key: i16,
    pub api_version: i16,
    pub correlation_id: i32,
    pub client_id: Option<String>,
}

impl RequestHeader {
    /// Reads the part every header of every API starts with; `client_id` is left `None`.
    pub fn read_fixed(reader: &mut Reader) -> Result<RequestHeader, DecodeError> {
        reader.enter("api_key");
        let api_key = reader.i16()?;
        reader.enter("api_version");
        let api_version = reader.i16()?;
        reader.enter("correlation_id");
        let correlation_id = reader.i32()?;
        Ok(RequestHeader { api_key, api_version, correlation_id, client_id: None })
    }

    /// Reads what follows the fixed part. The client id is never compact, so that a broker can read the header of an
    /// ApiVersions whose version it does not know; the tagged fields exist in flexible versions only.
    pub fn read_rest(&mut self, mut reader: Reader, flexible: bool) -> Result<Reader, DecodeError> {
        reader = reader.as_version(self.api_version, false);
        reader.enter("client_id");
        self.client_id = reader.nullable_string()?;
        if flexible {
            reader.tags(|_, _| Ok(false))?;
        }
        Ok(reader.as_version(self.api_version, flexible))
    }

    pub fn write(&self, out: Vec<u8>, flexible: bool) -> Vec<u8> {
        let mut writer = Writer::append_to(out, self.api_version, false);
        writer.raw(&self.api_key.to_be_bytes());
        writer.raw(&self.api_version.to_be_bytes());
        writer.raw(&self.correlation_id.to_be_bytes());
        match &self.client_id {
            Some(client_id) => writer.string(client_id),
            None => writer.null_string(),
        }
        if flexible {
            writer.tags(|_| ());
        }
        writer.into_bytes()
    }
}

/// Whether the response header carries tagged fields. ApiVersions never does: its reader does not know yet which
/// version was answered.
pub fn response_header_flexible(api: ApiKey, version: i16) -> bool {
    api != ApiKey::ApiVersions && api.flexible(version)
}
