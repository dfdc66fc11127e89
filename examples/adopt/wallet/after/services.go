package main

import "context"

// walletService has the rules of the business.
type walletService struct {
	wallets   walletRepository
	transfers transferRepository
}

const welcome = 10_000 // the credit of a new wallet, in cents

// Open opens the user's wallet, once.
func (s walletService) Open(ctx context.Context, user uint) (*Wallet, error) {
	created, err := s.wallets.Create(user)
	if err != nil {
		return nil, err
	}
	if created {
		if err := s.wallets.Add(ctx, user, welcome); err != nil {
			return nil, err
		}
	}
	return s.wallets.Find(ctx, user)
}

func (s walletService) Find(ctx context.Context, user uint) (*Wallet, error) {
	return s.wallets.Find(ctx, user)
}

// Transfer moves money from one wallet into another.
func (s walletService) Transfer(ctx context.Context, from, to uint, amount int64) (*Transfer, error) {
	t := &Transfer{From: from, To: to, Amount: amount}
	created, err := s.transfers.Create(ctx, t)
	if err != nil || !created { // not created: its record was lost, and t is what the attempt before has booked
		return t, err
	}
	if err := s.wallets.Add(ctx, from, -amount); err != nil {
		return nil, err
	}
	if err := s.wallets.Add(ctx, to, amount); err != nil {
		return nil, err
	}
	return t, nil
}
