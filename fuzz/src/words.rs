//! Known good text: what callers and operators write, and the pieces that break the reading of it.

/// Lines of the socket, both ways.
pub(crate) const LINES: &[&str] = &[
    r#"{"hello":{"kind":"cli"}}"#,
    r#"{"acquire":{"resources":["a/b","c"],"pools":{"gpu":2},"holder":"h","ttl_ms":30000,"grace_ms":0,"wait_ms":5,"attachment":{"job":[1,2.5,null,"x"]},"operation_id":"op-1"},"tag":"t"}"#,
    r#"{"tag":7,"acquire":{"resources":["a"],"holder":"h","mode":"session","session":"s:0000002d","reserve_ms":1000}}"#,
    r#"{"release":{"lease_id":"k3f9-1042","epoch":1,"holder":"h","reason":"done"},"tag":18446744073709551615}"#,
    r#"{"heartbeat":{"lease_id":"k3f9-1","epoch":3}}"#,
    r#"{"heartbeat":"0a1b2c3d"}"#,
    r#"{"amend":{"lease_id":"k3f9-1","epoch":1,"attachment":{"deep":[[[[]]]]}}}"#,
    r#"{"list":{"holder":"h","state":"active","liveness":"draining","mode":"heartbeat","resource_prefix":"a/","face":"leases","limit":1000,"cursor":"k3f9-1"}}"#,
    r#"{"check":{"resource":"a","fence":1881913454231594}}"#,
    r#"{"check":{"lease_id":"k3f9-1","epoch":2}}"#,
    r#"{"why":{"resource":"a"}}"#,
    r#"{"watch":{"from":12,"holder":"h"},"tag":"w"}"#,
    r#"{"stop":"w"}"#,
    r#"{"pool":{"name":"gpu","size":8}}"#,
    r#"{"pool":{"name":"gpu","remove":true,"force":true}}"#,
    r#"{"revoke":{"lease_id":"k3f9-1","reason":"r","epoch":1,"reclaim":false}}"#,
    r#"{"reclaim":{"lease_id":"k3f9-1","force":true}}"#,
    r#"{"status":{}}"#,
    r#"{"error":"stale_epoch","message":"m","definite":true,"lost":true,"current":4,"tag":1}"#,
    r#"{"renewed":{"lease_id":"k3f9-1","epoch":1,"valid_ms":null,"remaining_ms":5,"draining":false,"server_time":"t","lsn":3}}"#,
    r#"{"lost":{"lease_id":"k3f9-1","epoch":2,"reason":"admin_force"}}"#,
    r#"{"register":{"name":"My App","type":"_http._tcp","port":8080,"ip":"127.0.0.1","txt":{"a":"b","f":null},"lease":90,"lease_secs":90}}"#,
    r#"{"unregister":"0a1b2c3d"}"#,
    r#"{"browse":"_printer._sub._http._tcp.local.","tag":1}"#,
    r#"{"subscribe":"_services._dns-sd._udp","tag":2}"#,
    r#"{"resolve":"a.b\\c._http._tcp.local"}"#,
    r#"{"renewed":"0a1b2c3d","lease":90,"draining":true,"tag":4}"#,
    r#"{"event":"removed","service":{"name":"a","type":"_http._tcp","addresses":["::1"],"txt":{},"txt_base64":{"k":"/w=="}},"tag":5}"#,
    r#"{"found":{"name":"a","type":"_http._tcp","host":"h.local","ip":"127.0.0.1","addresses":["127.0.0.1"],"port":1,"txt":{"k":null}}}"#,
];

/// Requests: method and target, a line end, the body.
pub(crate) const REQUESTS: &[&str] = &[
    "POST /v1/leases\n{\"resources\":[\"a\"],\"holder\":\"h\",\"ttl_ms\":30000,\"pools\":{\"p\":1}}",
    "GET /v1/leases?holder=h&state=active&liveness=alive&mode=permanent&resource_prefix=a%2F&face=leases&limit=10&cursor=k3f9-1\n",
    "GET /v1/leases/k3f9-1042\n",
    "POST /v1/leases/k3f9-1/heartbeat\n{\"epoch\":1,\"holder\":\"h\"}",
    "POST /v1/leases/k3f9-1/amend\n{\"epoch\":1,\"attachment\":{\"a\":1}}",
    "POST /v1/leases/k3f9-1/rebind\n{\"epoch\":1,\"session\":\"s:0000002d\",\"attachment\":null}",
    "POST /v1/leases/k3f9-1/handover\n{\"epoch\":1,\"to_session\":\"s:0000002d\"}",
    "POST /v1/leases/k3f9-1/revoke\n{\"reason\":\"r\",\"epoch\":1,\"reclaim\":false}",
    "POST /v1/sessions\n{\"holder\":\"h\",\"ttl_ms\":90000,\"grace_ms\":30000}",
    "POST /v1/sessions/s:0000002d/heartbeat\n{\"seen_lsn\":7}",
    "DELETE /v1/sessions/s%3A0000002d\n",
    "GET /v1/resources?prefix=a&limit=1000\n",
    "GET /v1/resources/a%2Fb/%C3%A9\n",
    "PUT /v1/pools/gpu\n{\"size\":65536}",
    "DELETE /v1/pools/gpu?force=true\n",
    "POST /v1/check\n{\"resource\":\"a\",\"fence\":1}",
    "GET /v1/events?from=12&holder=h&state=revoking\n",
    "GET /v1/why?lease=k3f9-1\n",
    "POST /v1/shutdown\n{\"end_all\":true}",
    "POST /v1/mdns/services\n{\"name\":\"a.b\",\"type\":\"http\",\"port\":1,\"txt\":{\"k\":null},\"lease\":0}",
    "PUT /v1/mdns/services/0a1b2c3d/heartbeat\n{\"epoch\":1}",
    "DELETE /v1/mdns/services/0a1b2c3d\n",
    "GET /v1/mdns/browse?type=_http._tcp&idle_for=5\n",
    "GET /v1/mdns/resolve?name=My%20App._http._tcp.local\n",
    "DELETE /v1/admin/registrations/0a\n",
    "POST /v1/mdns/admin/drain/0a1b\n",
    "POST /v1/backup\n",
    "GET /healthz\n",
];

/// Requests to `/api/v3`, in the same form.
pub(crate) const INTENTS: &[&str] = &[
    "POST /api/v3/intents\n{\"type\":\"stream.start\"}",
    "POST /api/v3/intents\n{\"type\":\"stream.start\",\"service_ref\":\"rtsp://c/1\",\"pool\":\"gpu\",\"count\":2,\"resources\":[\"a/b\"],\"client\":\"h\",\"wait\":30,\"correlation_id\":\"c-1\"}",
    "POST /api/v3/intents\n{\"start_timeout\":60,\"metadata\":{\"job\":[1,2.5,null,\"x\",{\"deep\":[[[]]]}]},\"type\":\"stream.start\",\"count\":1}",
    "POST /api/v3/intents\n{\"type\":\"stream.stop\",\"session_id\":\"0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d\"}",
    "GET /api/v3/sessions?state=draining&limit=1000&cursor=k3f9-1\n",
    "GET /api/v3/sessions/0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d\n",
    "DELETE /api/v3/sessions/0B6AD4FE-2D5C-4B0E-9F3A-3F7F6A1B2C3D\n",
    "POST /api/v3/sessions/0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d/heartbeat\n{\"epoch\":1}",
    "POST /api/v3/sessions/0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d/heartbeat\n",
    "POST /api/v3/sessions/0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d/activate\n{\"epoch\":1}",
    "POST /api/v3/sessions/0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d/fail\n{\"reason\":\"no signal\"}",
    "GET /api/v3/sessions/0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d/events\n",
];

/// Face data of streams, as `docs/internals/formats/stream.md` has it.
pub(crate) const STREAMS: &[&[u8]] = &[
    b"0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d\x01\x00\x00\x00",
    b"0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d\x01\x01\x0artsp://c/1\x01\x03c-1\x80\xd0\x95\xff\xbc1",
    b"0b6ad4fe-2d5c-4b0e-9f3a-3f7f6a1b2c3d\x01\x00\x01\x02\xc3\xbc\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
];

/// Services that are to be registered, and full names that are to be looked up.
pub(crate) const SERVICES: &[&str] = &[
    r#"{"name":"My App","type":"_http._tcp","port":8080,"ip":"::1","txt":{"path":"/","flag":null},"lease":90}"#,
    r#"{"name":"Büro.1\\2 (33)","type":" _Printer._sub._ipp._TCP.local. ","port":1,"txt":{}}"#,
    r#"{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxüü","type":"fifteen-letters","port":65535}"#,
    "My App._http._tcp.local.",
    "a.b._c._x-1._udp",
];

/// Token files.
pub(crate) const TOKENS: &[&str] = &[
    "# who may ask\n\nalice admin 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\n",
    "ci-1.x\thold 2C26B46B68FFC68FF99B453C1D30413413422D706483BFA0F98A5E886266E7AE  \r\nb read 0000000000000000000000000000000000000000000000000000000000000000",
];

/// Ids as they are written.
pub(crate) const IDS: &[&str] =
    &["k3f9-1042", "0000-1", "zzzz-18446744073709551615", "s:0000002d", "pipe:ffffffffffff", "cli:00000001"];

/// Pieces that break the reading of text: brackets, escapes, numbers at their edges, halves of characters.
pub(crate) const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b":",
    b",",
    b"\n",
    b"\r",
    b"\t",
    b"\0",
    b" ",
    b"%",
    b"%00",
    b"%ff",
    b"%2",
    b"+",
    b"&",
    b"=",
    b"?",
    b"/",
    b"//",
    b"..",
    b"#",
    b"null",
    b"true",
    b"-1",
    b"-0",
    b"1e999",
    b"-1e-999",
    b"0.1",
    b"00",
    b"18446744073709551615",
    b"18446744073709551616",
    b"9007199254740993",
    b"\\u0000",
    b"\\ud800",
    b"\\udfff\\ud800",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"[[[[[[[[[[[[[[[[",
    b"{\"a\":{\"a\":{\"a\":",
    b"\"tag\":",
    b"\"tag\":null,",
    b"\"lease_id\":\"k3f9-1\",",
    b"\"epoch\":1,",
    b"\"epoch\":",
];

/// The largest numbers there are, where a caller may write one.
pub(crate) const LARGEST: &[&str] = &[
    "POST /v1/leases\n{\"resources\":[\"x\"],\"holder\":\"h\",\"wait_ms\":18446744073709551615}",
    "POST /v1/leases\n{\"resources\":[\"x\"],\"holder\":\"h\",\"ttl_ms\":18446744073709551615,\"grace_ms\":18446744073709551615}",
    "POST /v1/leases\n{\"resources\":[\"x\"],\"holder\":\"h\",\"reserve_ms\":18446744073709551615,\"max_lifetime_ms\":18446744073709551615}",
    "POST /v1/leases\n{\"pools\":{\"a\":4294967295,\"b\":4294967295},\"holder\":\"h\"}",
    "POST /v1/sessions\n{\"holder\":\"h\",\"ttl_ms\":18446744073709551615,\"grace_ms\":18446744073709551615}",
    "POST /v1/check\n{\"resource\":\"x\",\"fence\":18446744073709551615}",
    "GET /v1/leases?limit=18446744073709551615\n",
    "PUT /v1/pools/p\n{\"size\":4294967295}",
    "{\"acquire\":{\"resources\":[\"x\"],\"holder\":\"h\",\"wait_ms\":18446744073709551615},\"tag\":18446744073709551615}",
    "{\"heartbeat\":{\"lease_id\":\"aaaa-18446744073709551615\",\"epoch\":18446744073709551615}}",
    "{\"pool\":{\"name\":\"p\",\"size\":4294967295}}",
];
