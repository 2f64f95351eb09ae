package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ExplainFlag replaces the error of a Go parser with a statement of what the flag's value must
// be.
func ExplainFlag(_ *cobra.Command, err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, wanted(invalid))
	}
	if number, found := NegativeNumberArgument(err); found {
		return fmt.Errorf("%s is not a flag; write -- before arguments that begin with a hyphen", number)
	}
	return err
}

// ExplainVariable is like ExplainFlag, for an environment variable that sets a flag.
func ExplainVariable(name string, err error) error {
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		err = wanted(invalid)
	}
	return fmt.Errorf("environment variable %s: %w", name, err)
}

// wanted returns an error that says what the value of a flag must be. For types that parse their
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
		return errors.New("must be a time like 500ms, 15s or 2m")
	}
	return invalid.Unwrap()
}

// NegativeNumberArgument returns the argument that the parser mistook for an unknown flag, if that
// argument is a number.
func NegativeNumberArgument(err error) (number string, found bool) {
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return "", false
	}
	number = "-" + unknown.GetSpecifiedShortnames()
	_, err = strconv.ParseFloat(number, 64)
	return number, err == nil
}
