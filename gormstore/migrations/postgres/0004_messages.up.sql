-- +goose Up
-- The markers of messages that a consumer has processed: each commits together with the consumer's rows.
CREATE TABLE IF NOT EXISTS processed_message (
    consumer_group  text        NOT NULL,
    source          text        NOT NULL,
    message_id      text        NOT NULL,
    payload_hash    bytea       NOT NULL, -- SHA-256
    processed_at    timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL, -- a sweep may remove it from then on
    PRIMARY KEY (consumer_group, source, message_id)
);

CREATE INDEX IF NOT EXISTS processed_message_expires ON processed_message (expires_at);
