package resource

import (
	"encoding/base64"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// OrNil returns a member of an answer that AWS leaves out when it is empty.
func OrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Decimal formats a number.
func Decimal(n int) string { return strconv.Itoa(n) }

// CheckEnum refuses a value that its type does not know; empty is not given.
func CheckEnum[T interface {
	~string
	Values() []T
}](value T, parameter string) error {
	if value == "" || slices.Contains(value.Values(), value) {
		return nil
	}
	return InvalidValue(value, parameter, "")
}

// Base64 returns data as the API has it.
func Base64(data []byte) *string { return aws.String(base64.StdEncoding.EncodeToString(data)) }

// BooleanAttribute returns an attribute that is on or off.
func BooleanAttribute(value bool) *types.AttributeBooleanValue {
	return &types.AttributeBooleanValue{Value: aws.Bool(value)}
}

// Setting is a wanted attribute and where it goes.
type Setting struct {
	Wanted *types.AttributeBooleanValue
	Field  *bool
}

// ApplySetting applies the one setting that the request has.
func ApplySetting(settings ...Setting) error {
	n := 0
	for _, s := range settings {
		if s.Wanted != nil {
			*s.Field = aws.ToBool(s.Wanted.Value)
			n++
		}
	}
	switch n {
	case 0:
		return wire.Errorf("MissingParameter", "The request must contain an attribute to modify.")
	case 1:
		return nil
	}
	return wire.Errorf("InvalidParameterCombination",
		"Fields for multiple attribute types specified. A request may modify one attribute.")
}
