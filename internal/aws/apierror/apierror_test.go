package apierror_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/coracle-eks/coracle/internal/aws/apierror"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	denied := &smithy.GenericAPIError{Code: "AccessDenied", Message: "not authorized"}
	for name, test := range map[string]struct {
		err           error
		code, message string
	}{
		"of an API":             {denied, "AccessDenied", "not authorized"},
		"of an API, wrapped":    {fmt.Errorf("launch: %w", denied), "AccessDenied", "not authorized"},
		"of an API, no message": {&smithy.GenericAPIError{Code: "Busy"}, "Busy", "api error Busy: "},
		"of something else":     {errors.New("refused"), "", "refused"},
		"a long one": {&smithy.GenericAPIError{Code: "Busy", Message: strings.Repeat("é", 5000)}, "Busy",
			strings.Repeat("é", 4094) + " ..."},
	} {
		if code := apierror.Code(test.err); code != test.code {
			t.Errorf("%s: the code is %q, want %q", name, code, test.code)
		}
		if message := apierror.Message(test.err); message != test.message {
			t.Errorf("%s: the message is %q, want %q", name, message, test.message)
		}
	}
}
