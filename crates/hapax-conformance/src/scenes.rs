//! Where most cases begin.

use crate::{
    fixture::{Fixture, Verdict, says},
    requests::{A, B, LEASE, R, done, reserve, retake, unknown},
};
use hapax_core::{Name, Token};

impl Fixture {
    /// `token` holds the key.
    pub(crate) async fn held(&self, key: &Name, token: Token) -> Verdict {
        says(&self.a.reserve(&reserve(key, token)).await?, "yours")
    }

    /// `token` reserved and succeeded.
    pub(crate) async fn succeeded(&self, key: &Name, token: Token, text: &str) -> Verdict {
        self.held(key, token).await?;
        says(&self.a.complete(&done(key, token, text)).await?, "stored")
    }

    /// `token` reserved, and what became of its effect is not known.
    pub(crate) async fn unsure(&self, key: &Name, token: Token, text: &str) -> Verdict {
        self.held(key, token).await?;
        says(&self.a.complete(&unknown(key, token, text)).await?, "stored")
    }

    /// The lease of `A` has passed, and `B` holds the key.
    pub(crate) async fn taken_over(&self, key: &Name) -> Verdict {
        self.held(key, A).await?;
        self.elapse(LEASE).await;
        self.held(key, B).await
    }

    /// `B` holds the key, and the success of `A` lies beside it.
    pub(crate) async fn late_success(&self, key: &Name, text: &str) -> Verdict {
        self.taken_over(key).await?;
        says(&self.b.complete(&done(key, A, text)).await?, "stored late")
    }

    /// `B` holds the key, and what became of the effect of `A` is not known.
    pub(crate) async fn late_unknown(&self, key: &Name, text: &str) -> Verdict {
        self.taken_over(key).await?;
        says(&self.b.complete(&unknown(key, A, text)).await?, "stored late")
    }

    /// `R` holds the key to ask about the unknown outcome of `A`.
    pub(crate) async fn retaken(&self, key: &Name, text: &str) -> Verdict {
        self.unsure(key, A, text).await?;
        says(&self.b.retake_unknown(&retake(key, R)).await?, "yours")
    }
}
