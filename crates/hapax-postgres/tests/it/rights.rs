//! What a role needs.

use crate::support::{Place, complete, is_yours, open, refused, reserve};
use hapax_core::{
    Applied, StoreErrorKind,
    idempotency::{Completed, IdempotencyStore},
};

crate::list!("rights";
    a_role_that_may_not_make_the_schema_is_told,
    a_role_without_rights_is_refused,
    a_role_needs_the_tables_and_the_schema,
    a_role_that_may_only_read_writes_nothing,
    a_role_that_could_reserve_and_not_complete_is_refused,
);

async fn a_role_that_may_not_make_the_schema_is_told() {
    let place = Place::new();
    let role = place.role("").await;
    let error = refused(&place.url(&role, "")).await;
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Auth, Applied::No));
    assert!(error.to_string().contains("CREATE on the database"), "{error}");
}

async fn a_role_without_rights_is_refused() {
    let place = Place::new();
    drop(place.store().await);
    let role = place.role("").await;
    let error = refused(&place.url(&role, "")).await;
    assert_eq!(error.kind(), StoreErrorKind::Auth);
    assert!(error.to_string().contains("USAGE"), "{error}");
}

async fn a_role_needs_the_tables_and_the_schema() {
    let place = Place::new();
    drop(place.store().await);
    let schema = &place.schema;
    let role = place
        .role(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO $role; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO $role"
        ))
        .await;
    let (store, req) = (open(&place.url(&role, "")).await.unwrap(), reserve("k"));
    assert!(is_yours(&store.reserve(&req).await.unwrap()));
    assert_eq!(store.complete(&complete(&req)).await.unwrap(), Completed::Stored);
    assert!(store.secret().await.unwrap().is_some());
    assert_eq!(store.prune(10).await.unwrap(), 0);
}

async fn a_role_that_may_only_read_writes_nothing() {
    let place = Place::new();
    drop(place.store().await);
    let schema = &place.schema;
    let role = place
        .role(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO $role; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO $role"
        ))
        .await;
    let (store, req) = (open(&place.url(&role, "")).await.unwrap(), reserve("k"));
    let error = store.reserve(&req).await.unwrap_err();
    assert_eq!((error.kind(), error.applied()), (StoreErrorKind::Auth, Applied::No));
    let answers = store.reserve_many(&[reserve("a"), reserve("b")]).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|e| e.kind() == StoreErrorKind::Auth)));
    assert_eq!(store.read(&req.name).await.unwrap(), None);
}

async fn a_role_that_could_reserve_and_not_complete_is_refused() {
    let place = Place::new();
    drop(place.store().await);
    let schema = &place.schema;
    let role = place
        .role(&format!(
            "GRANT USAGE ON SCHEMA {schema} TO $role; \
             GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO $role"
        ))
        .await;
    let error = refused(&place.url(&role, "")).await;
    assert_eq!(error.kind(), StoreErrorKind::Auth);
    assert!(error.to_string().contains("GRANT ALL"), "{error}");
}
