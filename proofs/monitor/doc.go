// Package monitor audits a ledger over the network without trusting its server, as an RFC 6962
// monitor does. Run downloads the log and verifies the signed checkpoint, the chain, the tree, and
// every event. Optionally, it also verifies the content, receipts, and the server's answers
// (package replay). With a state file, each audit continues where the previous audit ended, and
// detects a rollback or a fork of the log. The Report lists what is wrong with the ledger. An error
// says why an audit could not finish. Follow repeats the audit while the log grows.
package monitor
