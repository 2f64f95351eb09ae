package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// expectation states which scopes a route needs, and the status that a caller with these
// scopes gets. It is not derived from the table of routes, so the test detects a route that
// requires too little.
type expectation struct {
	route  string
	takes  string // required scopes and where they must be granted, such as "read or content on the ledger"
	status int    // response status for callers that have the required scopes
	url    string // ~ stands for the path of the ledger
	body   string
}

// isOTLP reports whether the route answers failures with an OTLP status.
func (e expectation) isOTLP() bool { return strings.Contains(e.route, "/otlp/v1/") }

const (
	onLedger     = " on the ledger"
	unlessPublic = " on the ledger, unless its log is public"
	onAnyLedger  = " on any ledger"
	onAll        = " on all ledgers"

	anyScope = "write or read or content or log or admin or metrics"
	nothing  = ""
)

const ofALedger = "/v1/ledgers/{ledger}"

// expectations returns one expectation for every route. TestMatrix fails if one is missing.
func expectations() []expectation {
	return slices.Concat(expectedOfServer(), expectedOfWrites(), expectedOfReads(), expectedOfQueries())
}

func expectedOfServer() []expectation {
	return []expectation{
		{"GET /", nothing, 302, "/", ""},
		{"GET /ui/{version}/{file}", nothing, 200, consoleScript(), ""},
		{"GET /healthz", nothing, 200, "/healthz", ""},
		{"GET /readyz", nothing, 200, "/readyz", ""},
		{"GET /version", nothing, 200, "/version", ""},
		{"GET /example.ndjson", nothing, 200, "/example.ndjson", ""},
		{"GET /sign-in", nothing, 200, "/sign-in", ""},
		{"GET /openapi.yaml", nothing, 200, "/openapi.yaml", ""},
		{"GET /docs", nothing, 200, "/docs", ""},
		{"GET /docs/{file}", nothing, 200, "/docs/openapi.json", ""},
		{"GET /metrics", "metrics" + onAll, 200, "/metrics", ""},
		{"POST /v1/snapshots", "admin" + onAll, 409, "/v1/snapshots", ""},
		{"POST /v1/compute/cache-key", "write or read" + onAnyLedger, 200, "/v1/compute/cache-key", cachedDimensions},
		{"POST /v1/compute/question-hash", "write or read" + onAnyLedger, 200, "/v1/compute/question-hash", `{"question":"q"}`},
		{"POST /v1/compute/{kind}", "write or read" + onAnyLedger, 200, "/v1/compute/ipc_record", ipcBody("", "o")},
		{"GET /v1/ledgers", anyScope + onAnyLedger, 200, "/v1/ledgers", ""},
		{"POST /v1/ledgers", "admin" + onAll, 201, "/v1/ledgers", `{"name":"made-NUMBER"}`},
		{"GET " + ofALedger, anyScope + onLedger, 200, "~", ""},
		{"GET " + ofALedger + "/stats", "read" + onLedger, 200, "~/stats", ""},
		{"GET " + ofALedger + "/export", "read" + onLedger, 200, "~/export?question=/records", ""},
		{"POST " + ofALedger + "/freeze", "admin" + onLedger, 200, "/v1/ledgers/spare/freeze", ""},
		{"PUT " + ofALedger + "/visibility", "admin" + onLedger, 200, "~/visibility", `{"log":"private"}`},
		{"PUT " + ofALedger + "/unregistered-sources", "admin" + onLedger, 200, "~/unregistered-sources", `{"unregistered_sources":"accept"}`},
		{"PUT " + ofALedger + "/otlp-content", "admin" + onLedger, 200, "~/otlp-content", `{"otlp_content":"keep"}`},
		{"GET " + ofALedger + "/index", "read and admin" + onLedger, 200, "~/index", ""},
		{"POST " + ofALedger + "/keys", "admin" + onLedger, 409, "~/keys", `{"step":"retire"}`},
	}
}

func expectedOfWrites() []expectation {
	return []expectation{
		{"POST " + ofALedger + "/ipc-records", "write" + onLedger, 201, "~/ipc-records", ipcBody("", "o")},
		{"POST " + ofALedger + "/run-dags", "write" + onLedger, 201, "~/run-dags", dagBody},
		{"POST " + ofALedger + "/citation-sets", "write" + onLedger, 201, "~/citation-sets", setBody},
		{"POST " + ofALedger + "/path-fingerprints", "write" + onLedger, 201, "~/path-fingerprints", pathBody},
		{"POST " + ofALedger + "/batch", "write" + onLedger, 200, "~/batch", ipcLine("", "o")},
		{"POST " + ofALedger + "/otlp/v1/traces", "write" + onLedger, 200, "~/otlp/v1/traces", `{}`},
		{"POST " + ofALedger + "/otlp/v1/logs", "write" + onLedger, 200, "~/otlp/v1/logs", `{}`},
		{"POST " + ofALedger + "/records/{seq}/notes", "write" + onLedger, 201, "~/records/1/notes", `{"topic":"review"}`},
		{"POST " + ofALedger + "/records/{seq}/state", "write" + onLedger, 201, "~/records/1/state", `{"state":"live","reason":"r"}`},
		{"PUT " + ofALedger + "/paths/{project}/{path_id}/validation", "write" + onLedger, 201, "~/paths/p/0cc175b9/validation", `{"validated":true}`},
		{"PUT " + ofALedger + "/sources/{source_id}", "write" + onLedger, 201, "~/sources/x", `{}`},
		{"DELETE " + ofALedger + "/sources/{source_id}", "write" + onLedger, 201, "~/sources/revoked-NUMBER", ""},
		{"DELETE " + ofALedger + "/records/{seq}/content", "admin" + onLedger, 200, "~/records/6/content", `{"reason":"r"}`},
		{"POST " + ofALedger + "/redactions", "admin" + onLedger, 200, "~/redactions", `{"filter":{"run_id":"nobody"},"reason":"r"}`},
		{"POST " + ofALedger + "/state-changes", "write and read" + onLedger, 200, "~/state-changes", `{"filter":{"run_id":"nobody"},"state":"stale","reason":"r"}`},
		{"POST " + ofALedger + "/paths/{project}/validations", "read and write" + onLedger, 200, "~/paths/p/validations", `{"validated":true,"build":"b1"}`},
	}
}

func expectedOfReads() []expectation {
	return []expectation{
		{"GET " + ofALedger + "/records", "read" + onLedger, 200, "~/records", ""},
		{"GET " + ofALedger + "/records/{seq}", "read" + onLedger, 200, "~/records/1", ""},
		{"GET " + ofALedger + "/records/{seq}/receipt", "read or log" + onLedger, 200, "~/records/1/receipt", ""},
		{"GET " + ofALedger + "/records/{seq}/proof", "read or log" + onLedger, 200, "~/records/2/proof?stage=question", ""},
		{"GET " + ofALedger + "/records/{seq}/content/{path}", "content" + onLedger, 200, "~/records/1/content/output", ""},
		{"GET " + ofALedger + "/member-secret", "content" + onLedger, 200, "~/member-secret", ""},
		{"GET " + ofALedger + "/runs/{run_id}", "read" + onLedger, 200, "~/runs/r", ""},
		{"GET " + ofALedger + "/runs/compare", "read" + onLedger, 200, "~/runs/compare?a=r&b=r", ""},
		{"GET " + ofALedger + "/events", "read or log" + onLedger, 200, "~/events", ""},
		{"GET " + ofALedger + "/events/{hash}", "read or log" + onLedger, 200, "~/events/EVENT", ""},
		{"GET " + ofALedger + "/proofs/inclusion", "read or log" + onLedger, 200, "~/proofs/inclusion?seq=1", ""},
		{"GET " + ofALedger + "/proofs/consistency", "read or log" + onLedger, 200, "~/proofs/consistency?first=1", ""},
		{"GET " + ofALedger + "/log/checkpoint", "read or log" + unlessPublic, 200, "~/log/checkpoint", ""},
		{"GET " + ofALedger + "/log/key", "read or log" + unlessPublic, 200, "~/log/key", ""},
		{"GET " + ofALedger + "/log/tile/{path}", "read or log" + unlessPublic, 200, "~/log/tile/0/000.p/1", ""},
	}
}

func expectedOfQueries() []expectation {
	const read = "read" + onLedger
	return []expectation{
		{"GET " + ofALedger + "/paths", read, 200, "~/paths", ""},
		{"GET " + ofALedger + "/paths/{project}", read, 200, "~/paths/p", ""},
		{"GET " + ofALedger + "/paths/{project}/builds", read, 200, "~/paths/p/builds", ""},
		{"GET " + ofALedger + "/paths/{project}/builds/{build}/gone", read, 200, "~/paths/p/builds/b1/gone", ""},
		{"GET " + ofALedger + "/paths/{project}/compare", read, 200, "~/paths/p/compare?a=b1&b=b1", ""},
		{"GET " + ofALedger + "/paths/{project}/collisions", read, 200, "~/paths/p/collisions", ""},
		{"GET " + ofALedger + "/paths/{project}/{path_id}", read, 200, "~/paths/p/0cc175b9", ""},
		{"GET " + ofALedger + "/drift/groups", read, 200, "~/drift/groups?by=model", ""},
		{"GET " + ofALedger + "/drift/groups/{by}/{value}", read, 200, "~/drift/groups/model/m", ""},
		{"GET " + ofALedger + "/drift/values", read, 200, "~/drift/values?of=label", ""},
		{"GET " + ofALedger + "/search", read, 200, "~/search?q=m", ""},
		{"GET " + ofALedger + "/rates", read, 200, "~/rates", ""},
		{"GET " + ofALedger + "/live", read, 200, "~/live", ""},
		{"GET " + ofALedger + "/drift/attribution", read, 200, "~/drift/attribution?a=1&b=6", ""},
		{"GET " + ofALedger + "/drift/timeline", read, 200, "~/drift/timeline?input_hash=" + zeros, ""},
		{"GET " + ofALedger + "/drift/effects", read, 200, "~/drift/effects?variable=model&a=m&b=n", ""},
		{"POST " + ofALedger + "/drift/reproduce", read, 200, "~/drift/reproduce", `{"seq":1,"output":"o"}`},
		{"GET " + ofALedger + "/run-dags", read, 200, "~/run-dags?shape=unrecognised", ""},
		{"POST " + ofALedger + "/run-dags/lookup", "read and content" + onLedger, 200, "~/run-dags/lookup", `{"question":"q","cache_dimensions":` + cachedDimensions + `}`},
		{"GET " + ofALedger + "/run-dags/groups", read, 200, "~/run-dags/groups?by=cache_key", ""},
		{"GET " + ofALedger + "/run-dags/compare", read, 200, "~/run-dags/compare?a=2&b=5", ""},
		{"GET " + ofALedger + "/run-dags/divergence", read, 200, "~/run-dags/divergence?question_hash=" + zeros, ""},
		{"GET " + ofALedger + "/run-dags/failures", read, 200, "~/run-dags/failures", ""},
		{"GET " + ofALedger + "/run-dags/by-cache-key/{key}", read, 200, "~/run-dags/by-cache-key/" + cacheKey(), ""},
		{"GET " + ofALedger + "/run-dags/{seq}/stage-proof/{stage}", read, 200, "~/run-dags/2/stage-proof/question", ""},
		{"GET " + ofALedger + "/citation-sets/drift", read, 200, "~/citation-sets/drift?subject=s", ""},
		{"GET " + ofALedger + "/citation-sets/conflicts", read, 200, "~/citation-sets/conflicts", ""},
		{"GET " + ofALedger + "/citation-sets/stale", read, 200, "~/citation-sets/stale?source_id=x", ""},
		{"GET " + ofALedger + "/citation-sets/by-chunk/{hash}", read, 200, "~/citation-sets/by-chunk/sha256:" + zeros, ""},
		{"GET " + ofALedger + "/citation-sets/by-source/{source_id}", read, 200, "~/citation-sets/by-source/x", ""},
		{"GET " + ofALedger + "/citation-sets/{seq}/document", "read and content" + onLedger, 200, "~/citation-sets/3/document", ""},
		{"GET " + ofALedger + "/diff", "read and content" + onLedger, 200, "~/diff?a=1&b=1", ""},
		{"POST " + ofALedger + "/citation-sets/{seq}/pinned-retrieval", read, 200, "~/citation-sets/3/pinned-retrieval", `{"sources":[],"top_k":1}`},
		{"GET " + ofALedger + "/sources", read, 200, "~/sources", ""},
		{"GET " + ofALedger + "/sources/{source_id}", read, 200, "~/sources/x", ""},
		{"GET " + ofALedger + "/producers", read, 200, "~/producers", ""},
		{"GET " + ofALedger + "/producers/{id}", read, 200, "~/producers/w", ""},
	}
}

// cachedDAG is a run-DAG with a cache key.
var cachedDAG = `{"question":"q","cache_dimensions":` + cachedDimensions + `,` + dagBody[1:]

var cachedDimensions = `{"source_root":"` + zeros + `","question_hash":"` + zeros + `","model_profile_hash":"` + zeros +
	`","conversation_hash":"` + zeros + `","governance_policy_hash":"` + zeros +
	`","schema_version":"1","canonicalization_version":"1","chunking_version":"1"}`

// cacheKey returns the cache key of cachedDAG (spec: Cache key).
func cacheKey() string {
	question := sha256.Sum256([]byte("q"))
	key := sha256.Sum256([]byte(zeros + "|" + hex.EncodeToString(question[:]) + "|" + strings.Repeat(zeros+"|", 3) + "1|1|1"))
	return hex.EncodeToString(key[:])
}

// place splits e.takes into the required scopes and the place where they must be granted. all
// reports whether the route needs all of the scopes, not just one.
func (e expectation) place() (place string, scopes []string, all bool) {
	for _, place := range []string{unlessPublic, onLedger, onAnyLedger, onAll} {
		if names, found := strings.CutSuffix(e.takes, place); found {
			if several := strings.Split(names, " and "); len(several) > 1 {
				return place, several, true
			}
			return place, strings.Split(names, " or "), false
		}
	}
	return nothing, nil, false
}

// want returns the status that the request must get when c sends it.
func (e expectation) want(c caller) int {
	place, scopes, all := e.place()
	here := c.scopes // the scopes that the caller has on the ledger of the route
	switch {
	case place == nothing:
		return e.status
	case !c.valid:
		return http.StatusUnauthorized
	case (place == onLedger || place == unlessPublic) && (c.elsewhere || len(c.scopes) == 0):
		return http.StatusNotFound
	case place == onAll && !c.everywhere:
		here = nil
	}
	held := 0
	for _, name := range scopes {
		if slices.Contains(here, name) {
			held++
		}
	}
	if held == 0 || all && held < len(scopes) {
		return http.StatusForbidden
	}
	return e.status
}
