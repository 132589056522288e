//! UpdateFeatures: checks what is asked, and has nothing to change.
//!
//! Behavior: each feature that is told has one level (`protocol::features`), the finalized one. Asking for it succeeds and
//! changes nothing; every other level, and every level above 0 of a feature that is not told, is INVALID_UPDATE_VERSION
//! in Kafka's words. One bad update fails the whole request, as in Kafka 4.
//!
//! Version notes: 0 has a flag where 1 has the kind of update (KIP-584); up to 1 each feature is answered too.

use super::{Context, Outcome};
use crate::protocol::error_code::ErrorCode;
use crate::protocol::features::{finalized, find};
use crate::protocol::messages::update_features::{
    FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

const RESULTS_UP_TO: i16 = 1;

pub fn handle(cx: &Context, request: UpdateFeaturesRequest) -> Outcome {
    let fault = request.feature_updates.iter().find_map(|update| fault(cx, update).map(|text| (update, text)));
    if let Some((update, text)) = fault {
        let (level, name) = (update.max_version_level, &update.feature);
        return cx.reply(&UpdateFeaturesResponse {
            error_code: ErrorCode::INVALID_UPDATE_VERSION.code(),
            error_message: Some(format!(
                "The update failed for all features since the following feature had an error: Invalid update version \
                 {level} for feature {name}. {text}"
            )),
            ..Default::default()
        });
    }
    let row = |update: FeatureUpdateKey| UpdatableFeatureResult { feature: update.feature, ..Default::default() };
    let results = match cx.header.api_version {
        ..=RESULTS_UP_TO => request.feature_updates.into_iter().map(row).collect(),
        _ => Vec::new(),
    };
    cx.reply(&UpdateFeaturesResponse { results, ..Default::default() })
}

/// Why this update cannot be made.
fn fault(cx: &Context, update: &FeatureUpdateKey) -> Option<String> {
    let kind = if update.allow_downgrade { SAFE_DOWNGRADE } else { update.upgrade_type };
    let level = update.max_version_level;
    if !matches!(kind, UPGRADE | SAFE_DOWNGRADE | UNSAFE_DOWNGRADE) {
        return Some("The controller does not support the given upgrade type.".to_owned());
    }
    if level < 0 {
        return Some("A feature version cannot be less than 0.".to_owned());
    }
    let controller = cx.services.cluster.controller_id();
    let current = finalized(&update.feature);
    match find(&update.feature) {
        None if level > 0 => Some(format!("Local controller {controller} does not support this feature.")),
        None => None,
        Some(feature) if !(feature.min..=feature.max).contains(&level) => {
            let (min, max) = (feature.min, feature.max);
            Some(format!("Local controller {controller} only supports versions {min}-{max}"))
        }
        Some(_) if level < current && kind == UPGRADE => Some("A downgrade needs its upgrade type.".to_owned()),
        Some(_) => None,
    }
}
