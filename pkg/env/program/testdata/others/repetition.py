from trl.rewards import get_repetition_penalty_reward

reward = get_repetition_penalty_reward(2, -1.0)
