package wire_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

func TestRegisterRefusesWhatIsNoOperation(t *testing.T) {
	for name, handler := range map[string]wire.Handler{
		"unknown operation": wire.HandleFunc("Frobnicate", eksService{}.ListClusters),
		"wrong input":       wire.HandleFunc("DeleteCluster", eksService{}.CreateCluster),
		"wrong output":      wire.Handle(deletesWithoutOutput, wire.OnAll),
		"served twice":      wire.Handle(eksService{}.ListClusters, wire.OnAll),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Register accepted it")
				}
			}()
			newMux(t, &policy{}).Register(wire.EKS, handler)
		})
	}
}

func deletesWithoutOutput(context.Context, *eks.DeleteClusterInput) (*eks.CreateClusterOutput, error) {
	return nil, nil
}

func TestNobodyServesAnOperationForEverybodyByMistake(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("an operation is served that says nothing of who may call it")
		}
	}()
	wire.Handle(eksService{}.ListClusters, nil)
}

func TestMethodsThatNoServiceHas(t *testing.T) {
	m := newMux(t, &policy{})
	for _, method := range []string{http.MethodHead, http.MethodOptions, http.MethodTrace} {
		status, _, body := send(t, m, "eks", "secret", time.Now(),
			httptest.NewRequest(method, "http://coracle.test/clusters", nil), "")
		if status != http.StatusNotFound || method == http.MethodHead && body != "" {
			t.Errorf("%s: %d %s", method, status, body)
		}
	}
}

func TestOperationsListsWhatIsServed(t *testing.T) {
	var served []string
	total := 0
	for _, op := range newMux(t, &policy{}).Operations() {
		total++
		if op.Served {
			served = append(served, op.Service.ActionPrefix+":"+op.Name)
		}
	}
	want := []string{"eks:CreateCluster", "eks:DescribeCluster", "eks:ListClusters", "iam:GetRole", "iam:ListRoles",
		"sts:AssumeRoleWithWebIdentity", "sts:GetCallerIdentity"}
	if !slices.Equal(served, want) || total < 1600 {
		t.Errorf("%d operations, of which are served %v", total, served)
	}
}
