//! Mail over a queue: mails as jobs, and the handler that sends them.
//!
//! ```
//! use hapax_mail::{Message, jobs::QueuedMail};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let message =
//!     Message::builder().from("shop@example.com").to("ada@example.com").text("Welcome.").build()?;
//! let payload = QueuedMail::from(message).to_payload();
//! assert_eq!(&payload[..], br#"{"from":["shop@example.com"],"to":["ada@example.com"],"text":"Welcome."}"#);
//! # Ok(())
//! # }
//! ```

mod handler;
mod payload;

pub use handler::{MailJobs, outcome_of};
pub use payload::{InvalidPayload, QueuedMail};
