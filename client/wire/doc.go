// Package wire has the requests and answers of Colophon's HTTP API as Go types, each
// defined once. A test holds them to openapi.yaml, which also describes every member.
//
// # Requests
//
// In a request, null and absent mean the same, so no type here ever sends null. A field is a
// pointer if its zero value means something of its own: Output new("") is an output of no
// text, and a nil Output means no output. Where the API refuses the empty value, as with run_id or
// a hash, the field is a plain string, and "" leaves it out. For slices, nil leaves the
// member out, and an empty slice is sent as [].
//
// Free JSON (payload, usage, policy, messages and others) is a [json.RawMessage]. [Marshal]
// copies it byte for byte, so that the ledger hashes and keeps the caller's bytes.
//
// A Go string may hold lone surrogates in WTF-8, as CPython's surrogatepass writes them.
// Marshal sends them as escapes. The ledger accepts them in texts of run-DAGs only; elsewhere it
// answers 422. Any other invalid UTF-8 is an error of Marshal. [json.Marshal] would send U+FFFD
// for both, and so change what is hashed.
//
// # Answers
//
// Answers are decoded with encoding/json. Members that these types do not have are ignored, so
// a client can talk to a newer server. A pointer is nil for null. [Nullable] tells null and
// absent apart where an answer may have either. Lone surrogates can occur in content and in
// free JSON only, which stay bytes here.
//
// # Words
//
// A hash is 64 lower-case hexadecimal digits (SHA-256) unless its comment says otherwise. A
// chunk hash has the prefix "sha256:". A seq numbers the events of a ledger from 0. A tree
// size counts events. as_of is the tree size at which an answer was taken.
package wire
