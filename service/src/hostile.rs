//! Arbitrary text in place of the quantities of configuration files and command lines.

use proptest::prelude::*;
use thermae_testkit::hostile;

use crate::units::{ByteSize, Millis, ParseError};

fn quantity() -> impl Strategy<Value = String> {
    let unit =
        prop::sample::select(vec!["", "B", "KiB", "MiB", "GiB", "TiB", "kb", "K", "ms", "s", "m", "h", "d", "µs", "x"]);
    prop_oneof![
        hostile::word(),
        (hostile::number(), unit.clone()).prop_map(|(number, unit)| format!("{number}{unit}")),
        ("[0-9_.]{0,30} ?", unit).prop_map(|(number, unit)| format!("{number}{unit}")),
    ]
}

proptest! {
    #[test]
    fn a_quantity_is_read_or_refused_and_survives_its_own_text(text in quantity()) {
        if let Ok(size) = text.parse::<ByteSize>() {
            prop_assert_eq!(size.to_string().parse::<ByteSize>().unwrap(), size, "{}", text);
        }
        if let Ok(time) = text.parse::<Millis>() {
            prop_assert_eq!(time.to_string().parse::<Millis>().unwrap(), time, "{}", text);
        }
        let quoted = serde_json::to_string(&text).unwrap();
        // A configuration also takes a number without a unit.
        let on_a_command_line = text.parse::<ByteSize>();
        let bare = matches!(on_a_command_line, Err(ParseError::NoUnit { .. }));
        prop_assert_eq!(serde_json::from_str::<ByteSize>(&quoted).is_ok(), on_a_command_line.is_ok() || bare);
    }

    #[test]
    fn numbers_of_the_file_are_no_less_odd(text in hostile::json(&["a"])) {
        let _ = (serde_json::from_str::<ByteSize>(&text), serde_json::from_str::<Millis>(&text));
    }
}
