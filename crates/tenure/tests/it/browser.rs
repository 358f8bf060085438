//! Pages on the real daemon, in headless Chromium through its driver: the module that holds a session for a page, and
//! the dashboard. Pictures of it for the documents are taken on the way.

mod chromium;
mod dashboard;
mod module;
mod pictures;
mod proxy;
mod site;
mod tab;
