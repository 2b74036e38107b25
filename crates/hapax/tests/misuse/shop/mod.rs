//! A shop and its bank, for the programs beside this file.
#![allow(dead_code, reason = "no program uses all of it")]

#[derive(Clone, serde::Serialize)]
pub struct Order {
    pub id: String,
    pub cents: u64,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Charge {
    pub id: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the bank did not answer in time")]
pub struct BankError;

impl BankError {
    pub fn is_timeout(&self) -> bool {
        true
    }
}

pub async fn charge(order: &Order) -> Result<Charge, BankError> {
    Ok(Charge { id: order.id.clone() })
}

#[derive(serde::Serialize, serde::Deserialize)]
pub struct EmailJob {
    pub user: String,
}

pub static EMAIL: hapax::QueueDef<EmailJob> = hapax::QueueDef::new("email");
