package wire_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestPagesToTheEnd(t *testing.T) {
	client := eks.NewFromConfig(config(newMux(t, &policy{})))
	var all []string
	pages := eks.NewListClustersPaginator(client, &eks.ListClustersInput{MaxResults: aws.Int32(2)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out.Clusters...)
	}
	if !slices.Equal(all, []string{"a", "b", "c"}) {
		t.Errorf("the pages hold %v", all)
	}
	var invalid *ekstypes.InvalidParameterException
	if _, err := client.ListClusters(t.Context(), &eks.ListClustersInput{NextToken: aws.String("forged")}); !errors.As(
		err, &invalid) {
		t.Errorf("a forged token gives %v", err)
	}
}

func TestPageTokens(t *testing.T) {
	at := func(op, prefix string) context.Context {
		return wire.WithOperation(t.Context(), wire.IAM, op, &iam.ListRolesInput{PathPrefix: &prefix})
	}
	list := func(ctx context.Context, token *string, items ...string) ([]string, *string, error) {
		return wire.Page(ctx, items, aws.Int32(2), token, func(s string) string { return s })
	}
	first, token, err := list(at("ListRoles", "/"), nil, "a", "c", "e")
	if err != nil || !slices.Equal(first, []string{"a", "c"}) || token == nil {
		t.Fatalf("first page: %v, %v, %v", first, token, err)
	}
	// Between the pages b and d came, c went: nothing that stayed is lost or comes twice.
	second, next, err := list(at("ListRoles", "/"), token, "a", "b", "d", "e")
	if err != nil || !slices.Equal(second, []string{"d", "e"}) || next != nil {
		t.Errorf("second page: %v, %v, %v", second, next, err)
	}
	for name, ctx := range map[string]context.Context{"another operation": at("ListUsers", "/"),
		"other filters": at("ListRoles", "/x")} {
		var invalid *wire.Error
		if _, _, err := list(ctx, token, "a", "c", "e"); !errors.As(err, &invalid) ||
			invalid.Code != "ValidationError" {
			t.Errorf("a token for %s gives %v", name, err)
		}
	}
	if all, next, err := wire.Page(at("ListRoles", "/"), []string{"a"}, nil, nil,
		func(s string) string { return s }); err != nil || next != nil || len(all) != 1 {
		t.Errorf("without a maximum: %v, %v, %v", all, next, err)
	}
}
