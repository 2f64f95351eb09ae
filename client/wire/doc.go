// Package wire defines Go types for the request and response bodies of Colophon's HTTP API. A test
// compares these types with openapi.yaml, which describes every member.
//
// # Requests
//
// In a request, a null member means the same as an absent member, so no type here ever sends null.
// A field is a pointer if its zero value has a meaning: Output new("") is an empty output, and a
// nil Output means no output. If the API rejects an empty value, for example for run_id or a hash,
// the field is a plain string, and "" omits the member. A nil slice omits the member, and an empty
// slice is sent as [].
//
// Arbitrary JSON (payload, usage, policy, messages, and others) is a [json.RawMessage]. [Marshal]
// copies it byte for byte, so that the ledger hashes and keeps the caller's bytes.
//
// A Go string can contain lone surrogates in WTF-8, as CPython's surrogatepass writes them. Marshal
// sends them as escapes. The ledger accepts them only in texts of run-DAGs, and rejects all other
// requests that contain them with status 422. For any other invalid UTF-8, Marshal returns an
// error. [json.Marshal] would replace lone surrogates and other invalid UTF-8 with U+FFFD, which
// would change the hashes.
//
// # Answers
//
// Responses are decoded with encoding/json. Members that these types lack are ignored, so a client
// also works with a newer server. A nil pointer means null. Where a member can be either null or
// absent, [Nullable] distinguishes the two. Lone surrogates can occur only in content and in
// arbitrary JSON, which these types keep as bytes.
//
// # Terms
//
// A hash is 64 lower-case hexadecimal digits (SHA-256) unless its comment says otherwise. A chunk
// hash has the prefix "sha256:". A seq is the number of an event in its ledger, counted from 0. A
// tree size is a number of events. as_of is the tree size at which an answer is valid.
package wire
