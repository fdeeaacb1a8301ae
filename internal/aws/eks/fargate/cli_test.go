package fargate_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/coracle-eks/coracle/internal/aws/eks/ekstest"
	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/test/awsclient"
)

// The unmodified aws CLI creates a Fargate profile, waits for it, and waits until it is gone.
func TestFargateProfileCLI(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Create("c")
	cli := awsclient.NewCLI(t, w.URL, ekstest.Region, "eks")
	on := func(command string, args ...string) []string {
		return append([]string{command, "--cluster-name", "c", "--fargate-profile-name", "fp"}, args...)
	}
	// The controller works while the CLI waits: it makes and unmakes what it finds.
	controller := func(act func(record.FargateProfile) bool) (done func()) {
		var g sync.WaitGroup
		g.Go(func() {
			eventually.True(t, "the profile is as the controller likes it", func() bool {
				row, err := record.FargateProfiles(w.Store).Get(t.Context(), record.FargateProfileKey(ekstest.Account,
					ekstest.Region, "c", "fp"))
				return err == nil && act(row.Value)
			})
		})
		return g.Wait
	}
	var created struct {
		FargateProfile struct {
			Status, FargateProfileArn string
			Selectors                 []struct {
				Namespace string
				Labels    map[string]string
			}
		}
	}
	cli.Run(&created, on("create-fargate-profile", "--pod-execution-role-arn", ekstest.FargateRole, "--subnets",
		"subnet-b", "--selectors", "namespace=default", "namespace=team-*,labels={tier=web}", "--tags", "a=b")...)
	if p := created.FargateProfile; p.Status != "CREATING" || len(p.Selectors) != 2 ||
		p.Selectors[1].Namespace != "team-*" || p.Selectors[1].Labels["tier"] != "web" {
		t.Errorf("created %+v", created)
	}
	cli.Refused("ResourceInUseException", "Cannot create Fargate Profile other because cluster c currently has Fargate "+
		"profile fp in status CREATING", "create-fargate-profile", "--cluster-name", "c", "--fargate-profile-name",
		"other", "--pod-execution-role-arn", ekstest.FargateRole, "--selectors", "namespace=default")
	done := controller(func(record.FargateProfile) bool {
		w.observeProfile("c", "fp", record.FargateProfileState{Created: true})
		return true
	})
	cli.Run(nil, "wait", "fargate-profile-active", "--cluster-name", "c", "--fargate-profile-name", "fp")
	done()
	var listed struct{ FargateProfileNames []string }
	cli.Run(&listed, "list-fargate-profiles", "--cluster-name", "c")
	if !slices.Equal(listed.FargateProfileNames, []string{"fp"}) {
		t.Errorf("listed %v", listed)
	}
	cli.Run(nil, on("delete-fargate-profile")...)
	done = controller(func(p record.FargateProfile) bool {
		if p.Deleting {
			w.forget("c", "fp")
		}
		return p.Deleting
	})
	cli.Run(nil, "wait", "fargate-profile-deleted", "--cluster-name", "c", "--fargate-profile-name", "fp")
	done()
	cli.Refused("ResourceNotFoundException", "No Fargate Profile found with name: fp.", on("describe-fargate-profile")...)
}
