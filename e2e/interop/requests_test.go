package interop_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// request is a request to one route of the contract. In its path, ~ stands for the path of the
// ledger c, which the first request creates, and EVENT stands for the hash of an event.
type request struct {
	route, path, body string
	status            int
	past              string // why the request bypasses the proxy; "" if it goes through the proxy
}

const (
	ofLedger = "/v1/ledgers/{ledger}"
	zeros    = "0000000000000000000000000000000000000000000000000000000000000000"

	dimensions = `{"source_root":"` + zeros + `","question_hash":"` + zeros + `","model_profile_hash":"` + zeros + `","conversation_hash":"` + zeros +
		`","governance_policy_hash":"` + zeros + `","schema_version":"1","canonicalization_version":"1","chunking_version":"1"}`
	ipc    = `{"run_id":"r","payload":{"seed":1},"system_prompt":"Be brief.","output":"o","model":"m","temperature":0.5,"max_tokens":10,"labels":{"step":"a"},"producer":{"id":"w","seq":1}}`
	inputs = `{"inputs":{"audit_mode":"STRICT","verifier_method":"v","n_quotes":1,"n_verified":1,"sources":[{"document_root":null,"score":0.5}],"parsed_lattice":null,"question_hash":"` + zeros +
		`","context_root":"` + zeros + `","conversation_hash":"` + zeros + `","answer_text":"a"}}`
	dag   = `{"dag":{"root":"` + zeros + `","nodes":[{"stage":"question","hash":"` + zeros + `"}]},"cache_dimensions":` + dimensions + `}`
	set   = `{"subject":"s","citations":[{"source_id":"x","text":"t","weight":0.5},{"source_id":"y","text":"t","weight":1}]}`
	route = `{"project":"p","build":"b1","route":["a"],"content":"c"}`
)

// another is a generation that differs from ipc in its run_id, model, and output.
var another = strings.NewReplacer(`"m"`, `"n"`, `"r"`, `"q"`, `"o"`, `"p"`).Replace(ipc)

// cacheKey returns the cache key for the hashes and versions in dimensions.
func cacheKey() string {
	key := sha256.Sum256([]byte(strings.Repeat(zeros+"|", 5) + "1|1|1"))
	return hex.EncodeToString(key[:])
}

// someLines contains batch lines with records of every kind. One record claims a wrong hash.
var someLines = strings.Join([]string{
	`{"kind":"ipc_record","record":` + ipc + `}`,
	`{"kind":"ipc_record","record":` + strings.Replace(strings.Replace(ipc, `"r"`, `"q"`, 1), `"o"`, `"o","output_hash":"`+zeros+`"`, 1) + `}`,
	`{"kind":"run_dag","record":` + dag + `}`,
	`{"kind":"citation_set","record":` + set + `}`,
	`{"kind":"path_fingerprint","record":` + route + `}`, "",
}, "\n")

// writes contains requests that create the data for the requests in reads. Records 1 and 6 have the
// same prompt, and records 2 and 5 have the same question.
var writes = []request{
	{route: "POST /v1/ledgers", path: "/v1/ledgers", body: `{"name":"c"}`, status: 201},
	{route: "POST " + ofLedger + "/ipc-records", path: "~/ipc-records?derive=true", body: ipc, status: 201},
	{route: "POST " + ofLedger + "/run-dags", path: "~/run-dags", body: dag, status: 201},
	{route: "POST " + ofLedger + "/citation-sets", path: "~/citation-sets?derive=true", body: set, status: 201},
	{route: "POST " + ofLedger + "/path-fingerprints", path: "~/path-fingerprints?derive=true", body: route, status: 201},
	{route: "POST " + ofLedger + "/run-dags", path: "~/run-dags?derive=true", status: 201,
		body: `{"reject_inputs":{"question_hash":"` + zeros + `","preflight_hash":"` + zeros + `","rejection_reason":"unbounded"},"answer_text":""}`},
	{route: "POST " + ofLedger + "/ipc-records", path: "~/ipc-records", body: another, status: 201},
	{route: "POST " + ofLedger + "/run-dags", path: "~/run-dags", body: inputs, status: 201},
	{route: "POST " + ofLedger + "/ipc-records", path: "~/ipc-records", body: ipc, status: 200},                                   // the same record again
	{route: "POST " + ofLedger + "/ipc-records", path: "~/ipc-records", body: strings.Replace(ipc, `"o"`, `"z"`, 1), status: 409}, // a different record with the same run_id
	{route: "POST " + ofLedger + "/ipc-records", path: "~/ipc-records?on_mismatch=reject", status: 422,
		body: `{"payload":{},"output":"o","output_hash":"` + zeros + `","model":"m","temperature":1,"max_tokens":1}`},
	{route: "POST " + ofLedger + "/batch", path: "~/batch", body: someLines, status: 200},
	{route: "POST " + ofLedger + "/records/{seq}/state", path: "~/records/1/state", body: `{"state":"live","reason":"r"}`, status: 201},
	{route: "POST " + ofLedger + "/records/{seq}/notes", path: "~/records/1/notes", body: `{"topic":"review"}`, status: 201},
	{route: "POST " + ofLedger + "/state-changes", path: "~/state-changes", body: `{"filter":{"run_id":"r"},"state":"stale","reason":"r"}`, status: 200},
	{route: "PUT " + ofLedger + "/paths/{project}/{path_id}/validation", path: "~/paths/p/0cc175b9/validation", body: `{"validated":true}`, status: 201},
	{route: "POST " + ofLedger + "/paths/{project}/validations", path: "~/paths/p/validations", body: `{"validated":true,"build":"b1"}`, status: 200},
	{route: "PUT " + ofLedger + "/sources/{source_id}", path: "~/sources/x", body: `{"chunk_hashes":[]}`, status: 201},
	{route: "PUT " + ofLedger + "/visibility", path: "~/visibility", body: `{"log":"public"}`, status: 200},
	{route: "PUT " + ofLedger + "/unregistered-sources", path: "~/unregistered-sources", body: `{"unregistered_sources":"accept"}`, status: 200},
	{route: "PUT " + ofLedger + "/otlp-content", path: "~/otlp-content", body: `{"otlp_content":"keep"}`, status: 200},
	{route: "POST " + ofLedger + "/otlp/v1/traces", path: "~/otlp/v1/traces", body: `{"resourceSpans":[]}`, status: 200},
	{route: "POST " + ofLedger + "/otlp/v1/logs", path: "~/otlp/v1/logs", body: `{"resourceLogs":[]}`, status: 200},
	{route: "POST " + ofLedger + "/keys", path: "~/keys", body: `{"step":"rotate"}`, status: 201},
	{route: "POST " + ofLedger + "/keys", path: "~/keys", body: `{"step":"rotate"}`, status: 409}, // refused, because the ledger still signs with both keys after the earlier rotation
	{route: "POST /v1/snapshots", path: "/v1/snapshots", status: 409},                             // refused, because no backup is waiting for a snapshot
	{route: "POST /v1/compute/{kind}", path: "/v1/compute/ipc_record", body: ipc, status: 200},
	{route: "POST /v1/compute/cache-key", path: "/v1/compute/cache-key", body: dimensions, status: 200},
	{route: "POST /v1/compute/question-hash", path: "/v1/compute/question-hash", body: `{"question":"Why?"}`, status: 200},
}

var reads = []request{
	{route: "GET /", path: "/", status: 200, past: "Prism follows redirects"},
	{route: "GET /ui/{version}/{file}", path: "/ui/none/app.js", status: 404},
	{route: "GET /openapi.yaml", path: "/openapi.yaml", status: 200, past: "Prism does not read responses in YAML"},
	{route: "GET " + ofLedger + "/log/tile/{path}", path: "~/log/tile/0/000.p/1", status: 200, past: "Prism does not support parameters with slashes"},
	{route: "GET /healthz", path: "/healthz", status: 200},
	{route: "GET /readyz", path: "/readyz", status: 200},
	{route: "GET /version", path: "/version", status: 200},
	{route: "GET /docs", path: "/docs", status: 200},
	{route: "GET /docs/{file}", path: "/docs/openapi.json", status: 200},
	{route: "GET /example.ndjson", path: "/example.ndjson", status: 200, past: "Prism does not read responses in NDJSON"},
	{route: "GET /sign-in", path: "/sign-in", status: 200},
	{route: "GET /metrics", path: "/metrics", status: 200},
	{route: "GET /v1/ledgers", path: "/v1/ledgers", status: 200},
	{route: "GET " + ofLedger, path: "~", status: 200},
	{route: "GET " + ofLedger + "/stats", path: "~/stats", status: 200},
	{route: "GET " + ofLedger + "/records", path: "~/records?proofs=true", status: 200},
	{route: "GET " + ofLedger + "/records", path: "/v1/ledgers/default/records?limit=1000", status: 200},
	{route: "GET " + ofLedger + "/records/{seq}", path: "~/records/1?derive=true&proofs=true", status: 200},
	{route: "GET " + ofLedger + "/records/{seq}", path: "~/records/999", status: 404},
	{route: "GET " + ofLedger + "/records/{seq}/receipt", path: "~/records/1/receipt", status: 200},
	{route: "GET " + ofLedger + "/records/{seq}/proof", path: "~/records/2/proof?stage=question", status: 200},
	{route: "GET " + ofLedger + "/records/{seq}/content/{path}", path: "~/records/1/content/output", status: 200},
	{route: "GET " + ofLedger + "/index", path: "~/index", status: 200},
	{route: "GET " + ofLedger + "/member-secret", path: "~/member-secret", status: 200},
	{route: "GET " + ofLedger + "/runs/{run_id}", path: "~/runs/r", status: 200},
	{route: "GET " + ofLedger + "/runs/compare", path: "~/runs/compare?a=r&b=q", status: 200},
	{route: "GET " + ofLedger + "/events", path: "/v1/ledgers/default/events?limit=1000", status: 200},
	{route: "GET " + ofLedger + "/events/{hash}", path: "/v1/ledgers/default/events/EVENT", status: 200},
	{route: "GET " + ofLedger + "/proofs/inclusion", path: "~/proofs/inclusion?seq=1", status: 200},
	{route: "GET " + ofLedger + "/proofs/consistency", path: "~/proofs/consistency?first=1", status: 200},
	{route: "GET " + ofLedger + "/log/checkpoint", path: "~/log/checkpoint", status: 200},
	{route: "GET " + ofLedger + "/log/key", path: "~/log/key", status: 200},
	{route: "GET " + ofLedger + "/paths", path: "~/paths", status: 200},
	{route: "GET " + ofLedger + "/paths/{project}", path: "~/paths/p", status: 200},
	{route: "GET " + ofLedger + "/paths/{project}/builds", path: "~/paths/p/builds", status: 200},
	{route: "GET " + ofLedger + "/paths/{project}/builds/{build}/gone", path: "~/paths/p/builds/b1/gone", status: 200},
	{route: "GET " + ofLedger + "/paths/{project}/compare", path: "~/paths/p/compare?a=b1&b=b1", status: 200},
	{route: "GET " + ofLedger + "/paths/{project}/collisions", path: "~/paths/p/collisions", status: 200},
	{route: "GET " + ofLedger + "/paths/{project}/{path_id}", path: "~/paths/p/0cc175b9", status: 200},
	{route: "GET " + ofLedger + "/drift/groups", path: "~/drift/groups?by=model", status: 200},
	{route: "GET " + ofLedger + "/drift/groups", path: "/v1/ledgers/default/drift/groups?by=input_hash&sort=runs&limit=1000", status: 200},
	{route: "GET " + ofLedger + "/drift/groups/{by}/{value}", path: "~/drift/groups/model/m", status: 200},
	{route: "GET " + ofLedger + "/drift/attribution", path: "~/drift/attribution?a=1&b=6", status: 200},
	{route: "GET " + ofLedger + "/live", path: "~/live", status: 200},
	{route: "GET " + ofLedger + "/rates", path: "~/rates?step=3600", status: 200},
	{route: "GET " + ofLedger + "/search", path: "~/search?q=m", status: 200},
	{route: "GET " + ofLedger + "/export", path: "~/export?question=/records", status: 200, past: "Prism does not read responses in NDJSON"},
	{route: "GET " + ofLedger + "/drift/values", path: "~/drift/values?of=temperature", status: 200},
	{route: "GET " + ofLedger + "/drift/timeline", path: "~/drift/timeline?label:step=a", status: 200},
	{route: "GET " + ofLedger + "/drift/effects", path: "~/drift/effects?variable=model&a=m&b=n", status: 200},
	{route: "GET " + ofLedger + "/diff", path: "~/diff?a=1&b=6&of=output", status: 200},
	{route: "POST " + ofLedger + "/drift/reproduce", path: "~/drift/reproduce", body: `{"seq":1,"output":"o"}`, status: 200},
	{route: "GET " + ofLedger + "/run-dags", path: "~/run-dags", status: 200},
	{route: "POST " + ofLedger + "/run-dags/lookup", path: "~/run-dags/lookup", body: `{"question":"Why?","cache_dimensions":` + dimensions + `}`, status: 404},
	{route: "GET " + ofLedger + "/run-dags/groups", path: "~/run-dags/groups?by=question_hash&since=2020-01-01T00:00:00Z", status: 200},
	{route: "GET " + ofLedger + "/run-dags/compare", path: "~/run-dags/compare?a=2&b=5", status: 200},
	{route: "GET " + ofLedger + "/run-dags/divergence", path: "~/run-dags/divergence?question_hash=" + zeros, status: 200},
	{route: "GET " + ofLedger + "/run-dags/failures", path: "~/run-dags/failures", status: 200},
	{route: "GET " + ofLedger + "/run-dags/by-cache-key/{key}", path: "~/run-dags/by-cache-key/" + cacheKey(), status: 200},
	{route: "GET " + ofLedger + "/run-dags/{seq}/stage-proof/{stage}", path: "~/run-dags/2/stage-proof/question", status: 200},
	{route: "GET " + ofLedger + "/citation-sets/drift", path: "~/citation-sets/drift?subject=s", status: 200},
	{route: "GET " + ofLedger + "/citation-sets/conflicts", path: "~/citation-sets/conflicts", status: 200},
	{route: "GET " + ofLedger + "/citation-sets/stale", path: "~/citation-sets/stale?source_id=x", status: 200},
	{route: "GET " + ofLedger + "/citation-sets/by-chunk/{hash}", path: "~/citation-sets/by-chunk/sha256:" + zeros, status: 200},
	{route: "GET " + ofLedger + "/citation-sets/by-source/{source_id}", path: "~/citation-sets/by-source/x", status: 200},
	{route: "GET " + ofLedger + "/citation-sets/{seq}/document", path: "~/citation-sets/3/document", status: 200},
	{route: "POST " + ofLedger + "/citation-sets/{seq}/pinned-retrieval", path: "~/citation-sets/3/pinned-retrieval", body: `{"sources":[],"top_k":1}`, status: 200},
	{route: "GET " + ofLedger + "/sources", path: "~/sources", status: 200},
	{route: "GET " + ofLedger + "/sources/{source_id}", path: "~/sources/x", status: 200},
	{route: "GET " + ofLedger + "/producers", path: "~/producers", status: 200},
	{route: "GET " + ofLedger + "/producers/{id}", path: "~/producers/w", status: 200},
}

// writesAtLast holds requests that are sent last, because they remove data that the requests in reads
// need.
var writesAtLast = []request{
	{route: "DELETE " + ofLedger + "/sources/{source_id}", path: "~/sources/x", status: 201},
	{route: "DELETE " + ofLedger + "/records/{seq}/content", path: "~/records/6/content", body: `{"reason":"r"}`, status: 201},
	{route: "GET " + ofLedger + "/records/{seq}/content/{path}", path: "~/records/6/content/output", status: 410},
	{route: "POST " + ofLedger + "/redactions", path: "~/redactions", body: `{"filter":{"run_id":"r"},"reason":"r"}`, status: 200},
	{route: "POST " + ofLedger + "/keys", path: "~/keys", body: `{"step":"retire"}`, status: 201},
	{route: "GET " + ofLedger + "/log/key", path: "~/log/key", status: 200},
	{route: "POST " + ofLedger + "/freeze", path: "~/freeze", status: 200},
	{route: "POST " + ofLedger + "/ipc-records", path: "~/ipc-records", body: ipc, status: 403},
}
