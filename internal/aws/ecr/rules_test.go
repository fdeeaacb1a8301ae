package ecr_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	"github.com/coracle-eks/coracle/internal/host/image"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// TestRulesOfARegistry looks for the rule of a repository, as each request for a manifest does, without a look at all
// rules, of which a registry has 50 at most.
func TestRulesOfARegistry(t *testing.T) {
	t.Parallel()
	w := newFixture(t, image.Options{})
	create := func(prefix, upstream string) error {
		_, err := w.ecr(w.Root).CreatePullThroughCacheRule(t.Context(), &ecr.CreatePullThroughCacheRuleInput{
			EcrRepositoryPrefix: aws.String(prefix), UpstreamRegistryUrl: aws.String(upstream)})
		return err
	}
	var read int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { read += bytes; return nil })
	want := func(repository, upstream string) {
		t.Helper()
		read = 0
		if got, err := w.access.Upstream(ctx, account, region, repository); err != nil || got != upstream {
			t.Errorf("%s is a cache of %q, want %q: %v", repository, got, upstream, err)
		}
		if read > 2000 {
			t.Errorf("%s: %d bytes are read to find its rule", repository, read)
		}
	}
	want("hub/library/nginx", "")
	for prefix, upstream := range map[string]string{"hub": "registry-1.docker.io", "hub/k8s": "registry.k8s.io",
		"p0": "quay.io"} {
		if err := create(prefix, upstream); err != nil {
			t.Fatal(err)
		}
	}
	rules := record.PullThroughCacheRules(w.Store)
	for i := 1; i < 47; i++ {
		rule := record.PullThroughCacheRule{Account: account, Region: region, Prefix: fmt.Sprintf("p%d", i),
			Upstream: "quay.io"}
		if _, err := rules.Create(t.Context(), record.PullThroughCacheRuleKey(account, region, rule.Prefix),
			rule); err != nil {
			t.Fatal(err)
		}
	}
	want("hub/library/nginx", "docker.io/library/nginx")
	want("hub/k8s/pause", "registry.k8s.io/pause")
	want("hub", "")
	want("hubs/nginx", "")
	if err := create("more", "quay.io"); err != nil {
		t.Errorf("the 50th rule: %v", err)
	}
	if err := create("still-more", "quay.io"); awstest.Code(err) != "LimitExceededException" {
		t.Errorf("the 51st rule: %v", err)
	}
	if _, err := rules.Create(t.Context(), record.PullThroughCacheRuleKey(account, region, "ROOT"),
		record.PullThroughCacheRule{Account: account, Region: region, Prefix: "ROOT", Upstream: "ghcr.io"}); err != nil {
		t.Fatal(err)
	}
	want("hub/k8s/a/b", "registry.k8s.io/a/b")
	want("hub", "ghcr.io/hub")
	want("other/x", "ghcr.io/other/x")
}
