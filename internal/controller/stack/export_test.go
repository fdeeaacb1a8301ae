package stack_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
)

// exporting is the template of a stack that exports a value as "shared", unless it is empty.
func exporting(value string) string {
	body := `{"Resources":{"Group":{"Type":"AWS::Logs::LogGroup"}}`
	if value != "" {
		body += fmt.Sprintf(`,"Outputs":{"O":{"Value":%q,"Export":{"Name":"shared"}}}`, value)
	}
	return body + `}`
}

const importsShared = `{"Resources":{"User":{"Type":"AWS::Logs::LogGroup","Properties":{
	"LogGroupName":{"Fn::ImportValue":"shared"}}}}}`

// An export that another stack uses is neither changed nor removed.
func TestExportsInUse(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ctx := t.Context()
	w.create("of", exporting("one"))
	w.await("of", types.StackStatusCreateComplete)
	user := w.create("user", importsShared)
	w.await("user", types.StackStatusCreateComplete)
	users := awstest.Must[*cloudformation.ListImportsOutput](t)(w.ListImports(ctx,
		&cloudformation.ListImportsInput{ExportName: aws.String("shared")}))
	if len(users.Imports) != 1 || users.Imports[0] != "user" {
		t.Errorf("the users are %v", users.Imports)
	}
	value := func() string {
		out := awstest.Must[*cloudformation.ListExportsOutput](t)(w.ListExports(ctx, &cloudformation.ListExportsInput{}))
		if len(out.Exports) == 0 {
			return ""
		}
		return *out.Exports[0].Value
	}

	w.update("of", exporting("two"))
	w.await("of", types.StackStatusUpdateRollbackComplete)
	w.wantEvents("of", "UPDATE_ROLLBACK_IN_PROGRESS Export shared cannot be updated as it is in use by user")
	w.update("of", exporting(""))
	w.await("of", types.StackStatusUpdateRollbackComplete)
	w.wantEvents("of", "UPDATE_ROLLBACK_IN_PROGRESS Export shared cannot be deleted as it is in use by user")
	if got := value(); got != "one" || outputs(w.describe("of"))["O"] != "one" {
		t.Errorf("the export is %q", got)
	}
	other := w.create("other", exporting("three"))
	w.await(other, types.StackStatusRollbackComplete)
	w.wantEvents(other, "Export with name shared is already exported by stack of.")

	// Nobody uses it any more: an update of the user that fails does not count.
	w.fault("User", fault{Delete: "you may not"})
	w.update("user", logGroups(1, "User"))
	w.await("user", types.StackStatusUpdateComplete)
	w.fault("User", fault{})
	w.update("of", exporting("two"))
	w.await("of", types.StackStatusUpdateComplete)
	if got := value(); got != "two" {
		t.Errorf("the export is %q", got)
	}
	w.delete("user")
	w.await(user, types.StackStatusDeleteComplete)
	w.update("of", exporting(""))
	w.await("of", types.StackStatusUpdateComplete)
	if got := value(); got != "" {
		t.Errorf("the export is %q", got)
	}
}

// A user that goes back to a revision with the import has it again.
func TestAnImportIsRolledBack(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.create("of", exporting("one"))
	w.await("of", types.StackStatusCreateComplete)
	w.create("user", importsShared)
	w.await("user", types.StackStatusCreateComplete)
	w.fault("Bad", fault{Create: "you may not"})
	w.update("user", logGroups(1, "User", "Bad"))
	w.await("user", types.StackStatusUpdateRollbackComplete)
	_, err := w.DeleteStack(t.Context(), &cloudformation.DeleteStackInput{StackName: aws.String("of")})
	if _, message, _ := awstest.Failure(err); message != "Export shared cannot be deleted as it is in use by user" {
		t.Errorf("the deletion of a stack whose export is in use: %v", err)
	}
}
