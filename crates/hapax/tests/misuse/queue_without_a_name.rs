//! A queue without a name.
mod shop;
use hapax::QueueDef;
use shop::EmailJob;

static NAMELESS: QueueDef<EmailJob> = QueueDef::new("");

fn main() {
    let _ = NAMELESS.name();
}
