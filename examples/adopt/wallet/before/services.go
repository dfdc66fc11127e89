package main

// walletService has the rules of the business.
type walletService struct {
	wallets   walletRepository
	transfers transferRepository
}

const welcome = 10_000 // the credit of a new wallet, in cents

// Open opens the user's wallet, once.
func (s walletService) Open(user uint) (*Wallet, error) {
	created, err := s.wallets.Create(user)
	if err != nil {
		return nil, err
	}
	if created {
		if err := s.wallets.Add(user, welcome); err != nil {
			return nil, err
		}
	}
	return s.wallets.Find(user)
}

func (s walletService) Find(user uint) (*Wallet, error) {
	return s.wallets.Find(user)
}

// Transfer moves money from one wallet into another.
func (s walletService) Transfer(from, to uint, amount int64) (*Transfer, error) {
	t := &Transfer{From: from, To: to, Amount: amount}
	if err := s.transfers.Create(t); err != nil {
		return nil, err
	}
	if err := s.wallets.Add(from, -amount); err != nil {
		return nil, err
	}
	if err := s.wallets.Add(to, amount); err != nil {
		return nil, err
	}
	return t, nil
}
