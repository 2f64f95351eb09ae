package cli

import (
	"strconv"

	"github.com/spf13/cobra"
)

// ExplainSeqFlagError is like ExplainFlagError, but for a command whose arguments are sequence numbers of
// records. It reports a negative number as an invalid sequence number instead of an unknown flag.
func ExplainSeqFlagError(command *cobra.Command, err error) error {
	if number, found := NegativeNumberArgument(err); found {
		return invalidSeq(number)
	}
	return ExplainFlagError(command, err)
}

// RequireSeqs returns an error unless args consists of exactly n sequence numbers of records.
func RequireSeqs(command *cobra.Command, args []string, n int) error {
	if err := cobra.ExactArgs(n)(command, args); err != nil {
		return err
	}
	for _, arg := range args {
		if _, err := ParseSeq(arg); err != nil {
			return err
		}
	}
	return nil
}

// ParseSeq parses an argument that is the sequence number of a record.
func ParseSeq(argument string) (uint64, error) {
	seq, err := strconv.ParseUint(argument, 10, 64)
	if err != nil {
		return 0, invalidSeq(argument)
	}
	return seq, nil
}

func invalidSeq(argument string) error {
	return ExitErrorf(ExitUsage, "%q is not a valid seq; give the sequence number of a record, such as 41", argument)
}
