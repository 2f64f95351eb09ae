package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ExplainFlagError replaces an error from parsing a flag's value with one that says what the value must
// be. For a negative number that was mistaken for a flag, the error says to write -- before it.
// Other errors are returned unchanged.
func ExplainFlagError(_ *cobra.Command, err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, wanted(invalid))
	}
	if number, found := NegativeNumberArgument(err); found {
		return fmt.Errorf("%s is not a flag; write -- before arguments that begin with a hyphen", number)
	}
	return err
}

// ExplainEnvError is like ExplainFlagError, but for a flag whose value comes from the environment
// variable with the given name.
func ExplainEnvError(name string, err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		err = wanted(invalid)
	}
	return fmt.Errorf("environment variable %s: %w", name, err)
}

// wanted returns an error that says what the flag's value must be. For a flag type that parses its
// own values, it returns the parser's error.
func wanted(invalid *pflag.InvalidValueError) error {
	kind := invalid.GetFlag().Value.Type()
	switch kind {
	case "int", "uint", "uint64", "float64":
		if errors.Is(invalid, strconv.ErrRange) {
			return fmt.Errorf("%s is out of range", invalid.GetValue())
		}
		switch kind {
		case "float64":
			return errors.New("must be a number")
		case "int":
			return errors.New("must be a whole number")
		}
		return errors.New("must be a whole number, 0 or more")
	case "bool":
		return errors.New("must be true or false")
	case "duration":
		return errors.New("must be a duration such as 500ms, 15s, or 2m")
	}
	return invalid.Unwrap()
}

// NegativeNumberArgument reports whether err means that a negative number was mistaken for an
// unknown flag, and returns that number.
func NegativeNumberArgument(err error) (number string, found bool) {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return "", false
	}
	number = "-" + unknown.GetSpecifiedShortnames()
	_, err = strconv.ParseFloat(number, 64)
	return number, err == nil
}
