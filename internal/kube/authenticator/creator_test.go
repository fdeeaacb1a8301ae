package authenticator

import (
	"slices"
	"strings"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

// The creator of a cluster without access entries is its administrator, whatever aws-auth says.
func TestCreator(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:iam::" + account + ":"
	ops := func(f *fixture) string { return f.role("/teams/", "Ops", "s1") }
	for what, test := range map[string]struct {
		mode    ekstypes.AuthenticationMode
		token   func(*fixture) string
		cluster record.Cluster // its creator
		denied  bool
	}{
		"root user": {onlyConfigMap, (*fixture).root,
			record.Cluster{CreatorARN: arn + "root", CreatorID: account}, false},
		"session of a role": {onlyConfigMap, ops,
			record.Cluster{CreatorARN: arn + "role/teams/Ops", CreatorID: "AROAOPS"}, false},
		"of a cluster that has no ID of its creator": {onlyConfigMap, ops,
			record.Cluster{CreatorARN: arn + "role/teams/Ops"}, false},
		"somebody else": {onlyConfigMap, (*fixture).root,
			record.Cluster{CreatorARN: arn + "role/teams/Ops", CreatorID: "AROAOPS"}, true},
		"role with another path": {onlyConfigMap, ops,
			record.Cluster{CreatorARN: arn + "role/Ops", CreatorID: "AROAOPS"}, true},
		"role that was given the name": {onlyConfigMap, ops,
			record.Cluster{CreatorARN: arn + "role/teams/Ops", CreatorID: "AROAFORMEROPS"}, true},
		"role that is younger than the cluster": {onlyConfigMap, ops,
			record.Cluster{CreatorARN: arn + "role/teams/Ops", CreatedAt: testNow.Add(-2 * time.Hour)}, true},
		"user of another account": {onlyConfigMap, (*fixture).foreigner,
			record.Cluster{CreatorARN: foreignARN, CreatorID: "AIDAEVE"}, true},
		"with access entries, and none": {onlyAPI, (*fixture).root,
			record.Cluster{CreatorARN: arn + "root", CreatorID: account}, true},
		"with access entries and aws-auth, and none": {both, (*fixture).root,
			record.Cluster{CreatorARN: arn + "root", CreatorID: account}, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.mode)
			_, err := record.Clusters(f.store).Modify(t.Context(), record.ClusterKey(account, region, name),
				func(c *record.Cluster) error {
					c.CreatorARN, c.CreatorID, c.BootstrapCreatorAdmin = test.cluster.CreatorARN, test.cluster.CreatorID, true
					if c.CreatedAt = test.cluster.CreatedAt; c.CreatedAt.IsZero() {
						c.CreatedAt = testNow
					}
					return nil
				})
			f.put(err)
			got := f.authenticate(test.token(f))
			switch {
			case test.denied && (got.Authenticated || !strings.Contains(got.Error, "identity is not mapped")):
				t.Errorf("got %+v, want a denial", got)
			case !test.denied && (!got.Authenticated || got.User.Username != "kubernetes-admin" ||
				!slices.Equal(got.User.Groups, []string{"system:masters"})):
				t.Errorf("got %+v, want kubernetes-admin of system:masters", got)
			}
		})
	}
}
