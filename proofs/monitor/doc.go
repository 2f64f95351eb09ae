// Package monitor audits a ledger over the network, as an RFC 6962 monitor does, without trusting
// its server. Run downloads the log, verifies the signed checkpoint, the chain, the tree, and
// every event, and optionally the content, the receipts, and the server's answers (package
// replay). With a state file, the next audit continues where this one ended, and detects a
// rollback or a fork of the log. What is wrong is in the Report; an error says why an audit could
// not be finished. Follow repeats the audit while the log grows.
package monitor
