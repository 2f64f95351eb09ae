// Package indextest tests a ledger's index. It folds whole logs and compares the answers with those
// of simple models that scan every event.
package indextest
