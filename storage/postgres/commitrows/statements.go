package commitrows

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// statements is a queue of statements for one ledger that are sent to the server together.
type statements struct {
	ledger []byte // the ledger's number, encoded as a bigint
	queued []statement
}

// statement is a query with its parameters, which are encoded in PostgreSQL's binary format.
type statement struct {
	query      string
	parameters [][]byte
	row        func(values [][]byte) // receives each row of the result in PostgreSQL's binary format; may be nil
}

func (s *statements) add(query string, parameters ...[]byte) {
	s.queued = append(s.queued, statement{query: query, parameters: parameters})
}

var binaryFormat = []int16{pgx.BinaryFormatCode} // format code of all parameters and results

// commit calls beforeCommit, and then sends all queued statements and COMMIT together. It returns
// pgx.ErrTxCommitRollback if the server has rolled back instead.
func (s *statements) commit(ctx context.Context, conn *pgx.Conn, beforeCommit func()) error {
	s.add("commit")
	beforeCommit()
	last, err := s.send(ctx, conn)
	if err == nil && last.String() != "COMMIT" {
		return pgx.ErrTxCommitRollback
	}
	return err
}

// codeDivisionByZero is the SQLSTATE code of the error that begin causes if the head row is not as
// required (PostgreSQL, Appendix A).
const codeDivisionByZero = "22012"

// send sends all queued statements together. It returns the command tag of the last statement, or the
// first error. The server skips the statements after one that fails. Each statement stays prepared on the
// connection.
func (s *statements) send(ctx context.Context, conn *pgx.Conn) (last pgconn.CommandTag, err error) {
	var batch pgconn.Batch
	for i := range s.queued {
		prepared, err := conn.Prepare(ctx, s.queued[i].query, s.queued[i].query)
		if err != nil {
			return last, err
		}
		formats := binaryFormat
		if len(s.queued[i].parameters) == 0 {
			formats = nil
		}
		batch.ExecPrepared(prepared.Name, s.queued[i].parameters, formats, binaryFormat)
	}
	results := conn.PgConn().ExecBatch(ctx, &batch)
	for i := 0; err == nil && results.NextResult(); i++ {
		result := results.ResultReader()
		for row := s.queued[i].row; row != nil && result.NextRow(); {
			row(result.Values())
		}
		last, err = result.Close()
	}
	s.queued = nil
	err = cmp.Or(err, results.Close())
	var reported *pgconn.PgError
	if errors.As(err, &reported) && reported.Code == codeDivisionByZero {
		err = ErrRefused
	}
	return last, err
}
