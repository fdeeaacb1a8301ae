package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/store"
)

// AnywhereSubscription is an EKS Anywhere subscription. Nothing comes of it but the record: there is no license, and
// no support.
//
// Writer: internal/aws/eks/subscription.
// https://anywhere.eks.amazonaws.com/docs/clustermgmt/support/purchase-subscription/
type AnywhereSubscription struct {
	Account   string
	Region    string
	ID        string // a UUID, the end of its ARN
	Name      string // unique in the account and region; no operation shows it
	CreatedAt time.Time
	// ExpiresAt is the end of the term that was current when the record was last written.
	ExpiresAt       time.Time
	TermMonths      int32
	AutoRenew       bool
	LicenseQuantity int32
	LicenseType     ekstypes.EksAnywhereSubscriptionLicenseType
	Tags            map[string]string

	ClientRequestToken string
	RequestHash        string
}

// Expiration returns when the term ends that is current at a time: terms follow each other as long as the subscription
// renews itself.
func (s AnywhereSubscription) Expiration(now time.Time) time.Time {
	end := s.ExpiresAt
	for s.AutoRenew && s.TermMonths > 0 && !now.Before(end) {
		end = end.AddDate(0, int(s.TermMonths), 0)
	}
	return end
}

// Status returns the status of the subscription at a time.
func (s AnywhereSubscription) Status(now time.Time) ekstypes.EksAnywhereSubscriptionStatus {
	if !now.Before(s.Expiration(now)) {
		return ekstypes.EksAnywhereSubscriptionStatusExpired
	}
	return ekstypes.EksAnywhereSubscriptionStatusActive
}

// Key returns the subscription's key, which has its name.
func (s AnywhereSubscription) Key() string { return store.Key(s.Account, s.Region, s.Name) }

// ARN returns the subscription's Amazon Resource Name.
func (s AnywhereSubscription) ARN() string {
	return "arn:aws:eks:" + s.Region + ":" + s.Account + ":eks-anywhere-subscription/" + s.ID
}

// AnywhereSubscriptions returns the table of subscriptions, by account, region and name.
func AnywhereSubscriptions(s *store.Store) store.Table[AnywhereSubscription] {
	return store.NewTable[AnywhereSubscription](s, "eks-anywhere-subscriptions")
}

// AnywhereSubscriptionsByID returns the index of subscriptions by account, region and ID.
func AnywhereSubscriptionsByID(s *store.Store) store.Index[AnywhereSubscription] {
	return store.NewIndex(AnywhereSubscriptions(s), "id", func(v AnywhereSubscription) string {
		return store.Key(v.Account, v.Region, v.ID)
	})
}
