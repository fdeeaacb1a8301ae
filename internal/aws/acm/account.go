package acm

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/acm"
	"github.com/aws/aws-sdk-go-v2/service/acm/types"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// defaultDaysBeforeExpiry is when expiration events begin, unless an account says otherwise.
const defaultDaysBeforeExpiry = 45

// GetAccountConfiguration returns the configuration of the account in the region.
func (s *Service) GetAccountConfiguration(ctx context.Context, _ *acm.GetAccountConfigurationInput) (
	*acm.GetAccountConfigurationOutput, error) {
	at := placeOf(ctx)
	days := int32(defaultDaysBeforeExpiry)
	switch row, err := s.configurations.Get(ctx, store.Key(at.account, at.region)); {
	case err == nil:
		days = row.Value.DaysBeforeExpiry
	case !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	return &acm.GetAccountConfigurationOutput{
		ExpiryEvents: &types.ExpiryEventsConfiguration{DaysBeforeExpiry: &days},
	}, nil
}

// PutAccountConfiguration records when expiration events are to begin. There are none: coracle has no EventBridge.
func (s *Service) PutAccountConfiguration(ctx context.Context, in *acm.PutAccountConfigurationInput) (
	*acm.PutAccountConfigurationOutput, error) {
	if in.ExpiryEvents != nil && in.ExpiryEvents.DaysBeforeExpiry != nil {
		at := placeOf(ctx)
		_, err := s.configurations.Put(ctx, store.Key(at.account, at.region),
			record.CertificateConfiguration{DaysBeforeExpiry: *in.ExpiryEvents.DaysBeforeExpiry})
		if err != nil {
			return nil, err
		}
	}
	return &acm.PutAccountConfigurationOutput{}, nil
}
