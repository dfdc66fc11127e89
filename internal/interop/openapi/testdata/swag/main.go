// Package main is an app with the comments that swaggo makes a document of. Nobody runs it.
package main

// @title     shop
// @version   1
// @BasePath  /v1
func main() {}

// refund is a handler.
//
// @Summary  Refunds a payment
// @Param    payment  path  string  true  "the payment"
// @Success  201  {object}  Refund
// @Failure  409  {object}  Refusal  "nothing left to refund"
// @Router   /payments/{payment}/refunds [post]
func refund() {}

// Refund is an answer.
type Refund struct {
	ID string `json:"id"`
}

// Refusal is an answer.
type Refusal struct {
	Code string `json:"code"`
}
