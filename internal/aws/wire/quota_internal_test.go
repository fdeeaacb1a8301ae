package wire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/store"
)

func TestAFullAccountIsToldSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		service      Service
		code, recent string
	}{
		{Service{Name: "eks", Protocol: RestJSON1}, "ResourceLimitExceededException", "ThrottlingException"},
		{Service{Name: "iam", Protocol: AWSQuery}, "LimitExceeded", "Throttling"},
		{Service{Name: "ec2", Protocol: EC2Query}, "LimitExceeded", "RequestLimitExceeded"},
		{Service{Name: "ssm", Protocol: AWSJSON11}, "ParameterLimitExceeded", "ThrottlingException"},
		{Service{Name: "ecr", Protocol: AWSJSON11}, "LimitExceededException", "ThrottlingException"},
	} {
		t.Run(c.service.Name, func(t *testing.T) {
			t.Parallel()
			for _, recent := range []bool{false, true} {
				full := &store.FullError{Account: "111122223333", Limit: 256 << 20, Recent: recent}
				f := new(Mux).failureOf(&c.service, &request{id: "1"}, Caller{}, fmt.Errorf("write to the store: %w",
					full))
				want := c.code
				if recent {
					want = c.recent
				}
				if f.code != want || f.cause != nil || f.status < http.StatusBadRequest ||
					f.status >= http.StatusInternalServerError {
					t.Errorf("recent=%t is answered with %d %s, want %s and a status of the client's", recent, f.status,
						f.code, want)
				}
				if !strings.Contains(f.message, "111122223333") || !strings.Contains(f.message, "256 MiB") ||
					!strings.Contains(f.message, "try again") {
					t.Errorf("the message does not say what is full and what to do: %s", f.message)
				}
			}
		})
	}
}
