// Package indextest tests the index of a ledger: it folds whole logs and compares answers with
// models that walk over all events.
package indextest
