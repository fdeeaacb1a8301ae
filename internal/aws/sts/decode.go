package sts

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// decodeHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) decodeHandlers() []wire.Handler {
	return []wire.Handler{wire.Handle(s.DecodeAuthorizationMessage, wire.OnAll)}
}

// DecodeAuthorizationMessage tells why a request was refused, of whose error the caller has the encoded message.
func (s *Service) DecodeAuthorizationMessage(ctx context.Context, in *sts.DecodeAuthorizationMessageInput) (
	*sts.DecodeAuthorizationMessageOutput, error) {
	message, ok := s.identity.DecodeDenial(ctx, wire.CallerFrom(ctx).Account, *in.EncodedMessage)
	if !ok {
		return nil, &types.InvalidAuthorizationMessageException{
			Message: aws.String("Message is not valid: it is not one of an error of this account, or was altered.")}
	}
	return &sts.DecodeAuthorizationMessageOutput{DecodedMessage: &message}, nil
}
