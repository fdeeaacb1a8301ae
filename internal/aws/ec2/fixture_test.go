package ec2_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/aws/ec2/ec2test"
	"github.com/coracle-eks/coracle/internal/record"
)

// gone is the rest of an ID that no resource has.
const gone = "0123456789abcdef0"

// refused is a request that AWS refuses: with a code, and a message that contains the text.
type refused struct {
	name          string
	call          func() error
	code, message string
}

// checkRefusals demands code, HTTP status and message of each, and that nothing changes.
func checkRefusals(w *ec2test.Fixture, t *testing.T, all []refused) {
	t.Helper()
	before := w.Dump()
	for _, row := range all {
		t.Run(row.name, func(t *testing.T) {
			err := row.call()
			wantStatus := 400
			if row.code == "DryRunOperation" {
				wantStatus = 412
			}
			got, message, status := awstest.Failure(err)
			if got != row.code || status != wantStatus {
				t.Errorf("got %s (%d): %v, want %s (%d)", got, status, err, row.code, wantStatus)
			}
			if !strings.Contains(message, row.message) {
				t.Errorf("message %q, want %q in it", message, row.message)
			}
			if after := w.Dump(); after != before {
				t.Errorf("a refused request changed the store")
				before = after
			}
		})
	}
}

// createInstanceProfile puts an instance profile with a role into the store, as IAM does.
func createInstanceProfile(w *ec2test.Fixture, name, role string) {
	w.T.Helper()
	if role != "" {
		awstest.Must[any](w.T)(record.Roles(w.Store).Create(w.Context(), record.RoleKey(ec2test.Account, role),
			record.Role{Account: ec2test.Account, Name: role, Path: "/", ID: "AROA" + role}))
	}
	awstest.Must[any](w.T)(
		record.InstanceProfiles(w.Store).Create(w.Context(), record.InstanceProfileKey(ec2test.Account, name),
			record.InstanceProfile{Account: ec2test.Account, Name: name, Path: "/", ID: "AIPA" + name, Role: role}),
	)
}

// createLaunchTemplate makes a launch template and is its ID.
func createLaunchTemplate(w *ec2test.Fixture, name string, data types.RequestLaunchTemplateData) string {
	w.T.Helper()
	return *awstest.Must[*ec2.CreateLaunchTemplateOutput](w.T)(w.CreateLaunchTemplate(w.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name,
			LaunchTemplateData: &data})).LaunchTemplate.LaunchTemplateId
}
