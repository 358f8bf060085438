//! Routes about the cluster that a node belongs to.

use super::{ADMIN, Gives, Parts, READ, Route, Wanted, schema};
use http::Method;
use tenure_api::{self as api, Error};

const CLUSTER: &str = "Cluster";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route {
            method: Method::GET,
            path: "/v1/cluster",
            name: "cluster_status",
            summary: "Show leader, nodes and store of the cluster, as this node sees them",
            group: CLUSTER,
            scope: READ,
            query: None,
            body: None,
            gives: Gives::Json(200, schema::<api::ClusterStatus>),
            read: |_| Ok(Wanted::Cluster),
        },
        Route {
            method: Method::POST,
            path: "/v1/cluster/step-down",
            name: "step_down",
            summary: "Ask the leader to resign",
            group: CLUSTER,
            scope: ADMIN,
            query: None,
            body: None,
            gives: Gives::Json(200, schema::<api::SteppedDown>),
            read: |_| Ok(Wanted::StepDown),
        },
        Route {
            method: Method::POST,
            path: "/v1/cluster/rotate-secret",
            name: "rotate_secret",
            summary: "Replace the secret with which nodes authenticate each other",
            group: CLUSTER,
            scope: ADMIN,
            query: None,
            body: None,
            gives: Gives::Json(200, schema::<api::SecretRotated>),
            read: |_| Ok(Wanted::RotateSecret),
        },
        Route {
            method: Method::POST,
            path: "/v1/cluster/forget",
            name: "forget_node",
            summary: "Remove a permanently lost node",
            group: CLUSTER,
            scope: ADMIN,
            query: None,
            body: Some(schema::<api::ForgetNode>),
            gives: Gives::Json(200, schema::<api::NodeForgotten>),
            read: forget,
        },
    ]
}

fn forget(parts: &Parts<'_>) -> Result<Wanted, Error> {
    let body: api::ForgetNode = parts.body()?;
    Ok(Wanted::ForgetNode(body.node))
}
